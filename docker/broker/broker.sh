#!/usr/bin/env bash
# A Kafka broker in KRaft mode for machines without Docker. It needs Java and about 43 MB of archives.
#
#   broker.sh fetch HOME             download the archives to HOME/libs; as root, also install Java and Maven if missing
#   broker.sh run HOME DATA PORT     serve 127.0.0.1:PORT from DATA in the foreground; the controller uses PORT+1
#   broker.sh run HOME DATA PORT PROPERTIES     append a file of server properties, which override the defaults
#
# DATA is formatted on first use. `run` replaces this shell with Java, so signals to its pid reach the broker.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

fail() { echo "broker: $*" >&2; exit 1; }

need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "$1 is missing: install it (on Debian: apt-get install $2)"
    echo "broker: installing $2 for $1 ..." >&2
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >&2
}

fetch() { # HOME
    mkdir -p "$1"
    need java default-jre-headless
    need mvn maven
    echo "broker: downloading Kafka's archives to $1/libs ..." >&2
    rm -rf "$1/libs"
    mvn -q -B -Dstyle.color=never -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$(cd "$1" && pwd)/libs" >&2 || fail "Maven could not download the archives; see its output above"
    touch "$1/libs/.complete"
}

java_run() { # HOME CLASS ARGUMENT... (Java expands libs/* itself)
    local home="$1"
    shift
    # BROKER_JAVA_OPTIONS: further options of Java, separated by spaces
    exec java -Xmx512m ${BROKER_JAVA_OPTIONS:-} -Dlog4j2.configurationFile="$here/log4j2.properties" \
        -cp "$home/libs/*" "$@"
}

run() { # HOME DATA PORT [PROPERTIES]
    local home="$1" data="$2" port="$3"
    [ -e "$home/libs/.complete" ] || fail "no archives in $home: run broker.sh fetch $home first"
    mkdir -p "$data"
    sed -e "s|@PORT@|$port|g; s|@CONTROLLER_PORT@|$((port + 1))|g; s|@LOGS@|$(cd "$data" && pwd)/logs|" \
        "$here/server.properties" >"$data/server.properties"
    [ -z "${4:-}" ] || cat "$4" >>"$data/server.properties"
    if [ ! -e "$data/logs/meta.properties" ]; then
        local id
        id="$(head -c 16 /dev/urandom | base64 | tr '+/' 'AB' | tr -d '=')"  # as random-uuid, without starting Java
        (java_run "$home" kafka.tools.StorageTool format -t "$id" -c "$data/server.properties") >&2
    fi
    java_run "$home" kafka.Kafka "$data/server.properties"
}

case "${1:-}:$#" in
fetch:2) fetch "$2" ;;
run:4) run "$2" "$3" "$4" ;;
run:5) run "$2" "$3" "$4" "$5" ;;
*) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
