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
    go)
        # `direct` and `off` name no host, and the checksum database is named by its host.
        go env GOPROXY | tr ',|' '\n\n' | sed -n 's|^https\{0,1\}://|go &|p'
        go env GOSUMDB | sed -n 's|^\([a-z0-9.-]*\.[a-z0-9.-]*\).*|go https://\1/|p'
        ;;
    maven)
        # What its own library has built in, and the mirrors that its settings name.
        python3 - "$(readlink -f "$(command -v mvn)")" << 'EOF'
import glob, os, re, sys, zipfile
home = os.path.dirname(os.path.dirname(sys.argv[1]))
texts = []
for library in glob.glob(home + "/lib/maven-model-builder*.jar"):
    with zipfile.ZipFile(library) as archive:
        texts.append(archive.read("org/apache/maven/model/pom-4.0.0.xml").decode())
for settings in (home + "/conf/settings.xml", os.path.expanduser("~/.m2/settings.xml")):
    if os.path.exists(settings):
        texts.append(open(settings).read())
for text in texts:
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    blocked = r"<mirror>(?:(?!</mirror>).)*<blocked>\s*true\s*</blocked>.*?</mirror>"
    for url in re.findall(r"<url>\s*(\S+)\s*</url>", re.sub(blocked, "", text, flags=re.S)):
        print("maven", url)
EOF
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
