#!/bin/sh
# Certificates for trying out TLS on the Raft port: a private CA and one certificate for each node.
#
#     configs/certs.sh [FOLDER [NODE ...]]        by default: certs n1 n2 n3
#
# The CA is made once and kept; the nodes' certificates are made anew by each run, and running nodes
# take them within a second. Who holds FOLDER/ca.key can make members of the cluster: keep it off
# the nodes. Further settings: DAYS (365) a node's certificate is good for.
set -eu
umask 077
folder=${1:-certs}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- n1 n2 n3
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

new_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }

if [ ! -f "$folder/ca.key" ]; then
    new_key "$work/ca.key"
    printf '%s\n' '[req]' 'distinguished_name=dn' '[dn]' '[ca]' \
        'basicConstraints=critical,CA:TRUE,pathlen:0' 'keyUsage=critical,keyCertSign,cRLSign' \
        'subjectKeyIdentifier=hash' > "$work/ca.cnf"
    openssl req -x509 -new -key "$work/ca.key" -sha256 -days 3650 -config "$work/ca.cnf" \
        -extensions ca -subj "/CN=shard-coordinator peers" -out "$folder/ca.pem"
    mv "$work/ca.key" "$folder/ca.key"
fi

for node in "$@"; do
    new_key "$work/$node.key"
    openssl req -new -key "$work/$node.key" -subj "/CN=$node" -out "$work/$node.csr"
    printf '%s\n' 'basicConstraints=critical,CA:FALSE' 'keyUsage=critical,digitalSignature' \
        'extendedKeyUsage=serverAuth,clientAuth' "subjectAltName=DNS:$node" \
        'subjectKeyIdentifier=hash' 'authorityKeyIdentifier=keyid' > "$work/$node.ext"
    openssl x509 -req -in "$work/$node.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" -sha256 \
        -set_serial "0x$(openssl rand -hex 16)" -days "${DAYS:-365}" -extfile "$work/$node.ext" \
        -out "$work/$node.pem" 2>/dev/null
    # The key first: until both are in place they do not fit, and a node keeps what it has.
    mv "$work/$node.key" "$folder/$node.key"
    mv "$work/$node.pem" "$folder/$node.pem"
done
echo "$folder: ca.pem, and certificates with their keys of $*"
