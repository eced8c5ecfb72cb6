#!/bin/sh
# An executor with nothing but curl: what the protocol asks of one, in the order in which it matters.
#
#     sh executor.sh http://127.0.0.1:7070 jobs sh-1 ./work.sh
#
# runs `./work.sh start KEY EPOCH` for each shard that it is given and `./work.sh stop KEY EPOCH`
# when it has to let it go. Both must return soon: heartbeats wait for them. Keys with quotes or
# backslashes are beyond it, and it knows seconds only: for leases of 10 s, not of one.
set -eu
[ $# -ge 4 ] || { echo "usage: executor.sh API NAMESPACE NAME COMMAND..." >&2; exit 2; }
api=$1 namespace=$2 name=$3
shift 3
me="$api/v1/namespaces/$namespace/executors/$name"
work=$(mktemp -d)
held="$work/held"        # a line for each shard that runs: EPOCH KEY
: > "$held"

# Seconds on a clock that nobody sets; a time of day may jump, and a lease must not.
now() { cut -d. -f1 /proc/uptime 2> /dev/null || date +%s; }
# One field of a flat JSON object, on standard input.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }
# The same with a status code as its last line. Nothing may take longer than a part of a lease.
ask() { curl -sS -m 2 -H 'Content-Type: application/json' -w '\n%{http_code}\n' "$@" 2> /dev/null || echo 000; }

forget() {               # EPOCH KEY
    grep -vxF "$1 $2" "$held" > "$held.new" || true
    mv "$held.new" "$held"
}

start_one() {            # EPOCH KEY and the user's command
    epoch=$1 key=$2
    shift 2
    # Held from before its start: a signal may come between that and the next line.
    echo "$epoch $key" >> "$held"
    "$@" start "$key" "$epoch" < /dev/null || forget "$epoch" "$key"
}

stop_one() {             # the same
    epoch=$1 key=$2
    shift 2
    "$@" stop "$key" "$epoch" < /dev/null || true
    forget "$epoch" "$key"
}

stop_all() {
    cp "$held" "$work/all"
    while read -r epoch key; do stop_one "$epoch" "$key" "$@"; done < "$work/all"
}

leave() {
    stop_all "$@"
    ask -X DELETE "$me?incarnation=$incarnation" > /dev/null
    rm -rf "$work"
}

join() {                 # an incarnation for each start, never used again
    incarnation=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
    sequence=0 joining=true acked_at='' lease_s=10
}

join
trap 'leave "$@"; exit 0' TERM INT

while :; do
    # 1. Say that we live and what we hold. The lease counts from before this is sent.
    sent_at=$(now)
    sequence=$((sequence + 1))
    shards=$(sed 's/^\([0-9]*\) \(.*\)$/"\2": {"epoch": \1}/' "$held" | paste -sd, -)
    ask "$me/heartbeat" -d "{\"incarnation\": \"$incarnation\", \"sequence\": $sequence,
        \"joining\": $joining, \"status\": \"active\", \"host\": \"$(uname -n)\",
        \"address\": \"\", \"shards\": {$shards}}" > "$work/answer"
    case $(tail -n 1 "$work/answer") in
    200)
        acked_at=$sent_at joining=false
        lease_s=$(field lease_ttl_s < "$work/answer" | cut -d. -f1)
        ;;
    409)
        # Over: stop everything. One whose lease ran out may come back, as somebody new.
        case $(field cause < "$work/answer") in
        '') ;;
        expired) stop_all "$@"; join; continue ;;
        *) stop_all "$@"; rm -rf "$work"; exit 1 ;;
        esac
        ;;
    esac

    # 2. Without a lease nothing may run: stop before it can have been given to others.
    if [ -z "$acked_at" ] || [ $(($(now) - acked_at)) -ge $((lease_s - 2)) ]; then
        stop_all "$@"
        sleep 1
        continue
    fi

    # 3. Do what the set says; it is always the whole set. No set (503, 304, no answer): no change.
    ask "$me/assignments?incarnation=$incarnation" > "$work/answer"
    if [ "$(tail -n 1 "$work/answer")" = 200 ]; then
        sed '$d' "$work/answer" | sed 's/.*"assignments":\[//; s/},{/}\
{/g' | sed -n 's/.*"key":"\([^"]*\)","epoch":\([0-9]*\),"state":"\([a-z]*\)".*/\2 \3 \1/p' > "$work/set"
        # First let go of what is to be released, or is no longer ours, or is ours anew.
        released=''
        cp "$held" "$work/before"
        while read -r epoch key; do
            grep -qxF "$epoch run $key" "$work/set" || stop_one "$epoch" "$key" "$@"
        done < "$work/before"
        # A release is acknowledged also when nothing runs here: then it was stopped before.
        while read -r epoch state key; do
            if [ "$state" = release ]; then
                released="$released{\"key\": \"$key\", \"epoch\": $epoch},"
            elif [ "$state" = run ] && ! grep -qxF "$epoch $key" "$held"; then
                start_one "$epoch" "$key" "$@"
            fi
        done < "$work/set"
        [ -z "$released" ] ||
            ask "$me/acks" -d "{\"incarnation\": \"$incarnation\", \"released\": [${released%,}]}" > /dev/null
    fi
    # A second between heartbeats keeps moves short; a long poll would be better, and longer to read.
    sleep 1
done
