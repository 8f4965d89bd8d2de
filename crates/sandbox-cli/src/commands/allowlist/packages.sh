# Prints `CLIENT URL` for what the image's clients of package repositories fetch from, without a network. Arguments: the clients.
# Each is asked for what it would do here: its configuration, else what is built in.
exec 2> /dev/null
for client; do
    case $client in
    pip)
        python3 - << 'EOF'
from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI
configuration = Configuration(isolated=False)
configuration.load()
of = {"index-url": [], "extra-index-url": []}
for key, value in configuration.items():
    if isinstance(value, dict):
        pairs = value.items()
    else:
        pairs = [(key, value)]
    for name, text in pairs:
        of.get(name.rpartition(".")[2], []).extend(text.split())
# The index that is built in has its files on a host of their own, others have them beside it.
indexes = of["index-url"] or [PyPI.simple_url, "https://" + PyPI.file_storage_domain + "/"]
for url in indexes + of["extra-index-url"]:
    url = url.rstrip("/")
    print("pip", (url[:-len("/simple")] if url.endswith("/simple") else url) + "/")
EOF
        ;;
    npm)
        command -v npm > /dev/null && echo "npm $(npm config get registry)"
        ;;
    cargo)
        # Its error names the URL that it could not reach.
        folder=$(mktemp -d) && cd "$folder" && mkdir src && : > src/lib.rs &&
            printf '[package]\nname = "x"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nserde = "1"\n' > Cargo.toml &&
            CARGO_NET_RETRY=0 cargo fetch 2>&1 |
            sed -n 's|.*`\(https\{0,1\}://[^`]*\)/config.json`.*|cargo \1/|p'
        ;;
    apt)
        # The first has what was fetched before, the second what would be fetched.
        apt-get indextargets --format 'apt $(SITE)'
        apt-get --print-uris update |
            sed -n "s|^'\(https\{0,1\}://[^' ]*\)/dists/[^' ]*InRelease' .*|apt \1/|p"
        ;;
    esac
done
:
