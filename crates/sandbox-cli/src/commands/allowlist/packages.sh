# Prints `CLIENT URL` for each registry that the image's package clients use, without a network. Arguments: the clients.
# Each client is queried for its configuration, otherwise for its built-in default.
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
# The built-in index serves files from a separate host, others from their own.
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
        # Its error contains the URL that it failed to reach.
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
        # The built-in default of its library, and the mirrors in its settings.
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
        # The first lists indexes fetched before, the second those that would be fetched.
        apt-get indextargets --format 'apt $(SITE)'
        apt-get --print-uris update |
            sed -n "s|^'\(https\{0,1\}://[^' ]*\)/dists/[^' ]*InRelease' .*|apt \1/|p"
        ;;
    esac
done
:
