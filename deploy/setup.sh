#!/bin/sh
# Prepares the volumes of docker-compose.yml, once before the services at each `docker compose up`: makes the secrets that are not
# there yet and gives each file to the user that reads it. Runs as root, without a network.
#
# Volumes, below $1 (the root of the container when it is not given):
#   secrets/database   password (Postgres), url (session-manager, issue)
#   secrets/bus        nats.conf (NATS), url (gateway, session-manager, issue)
#   secrets/services   token (every service of kaged)
#   data/NAME          what NAME keeps; its user's
# With KAGED_MTLS=1, for docker-compose.mtls.yml:
#   secrets/ca         the CA of `kaged certs`
#   secrets/tls/NAME   the certificate of NAME, made anew each time
set -eu
umask 077
root=${1:-}
uid=${KAGED_UID:-1000}
gid=${KAGED_GID:-1000}
postgres=${POSTGRES_UID:-999}

refuse() {
	echo "setup: $*" >&2
	exit 1
}

for id in "$uid" "$gid"; do
	case $id in
	'' | *[!0-9]*) refuse "KAGED_UID and KAGED_GID are numbers, not \"$id\": set them to the owner of your projects, as \`id -u\` and \`id -g\` print it." ;;
	esac
done
# Root without capabilities still owns the files of /proc/sys, which the workspace's container does not hide.
[ "$uid" -ne 0 ] || refuse "KAGED_UID is 0: agents would be root in their container. Set KAGED_UID and KAGED_GID to an ordinary user and give that user the projects."


# put FILE OWNER writes standard input to a file that its owner alone reads. The file is there whole or not at all.
put() {
	cat >"$1.new"
	chown "$2" "$1.new"
	chmod 0400 "$1.new"
	mv -f "$1.new" "$1"
}

# keep FILE sets secret to what a file holds, or to 64 random digits where there is none.
keep() {
	if [ -s "$1" ]; then
		secret=$(cat "$1")
	else
		secret=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
	fi
	[ ${#secret} -ge 32 ] || refuse "no secret could be made for $1"
}

for dir in database bus services; do
	chmod 0711 "$root/secrets/$dir"
done

if [ -n "${KAGED_MTLS:-}" ]; then
	ca=$root/secrets/ca
	chmod 0700 "$ca"
	[ -s "$ca/ca.key" ] || kaged certs init "$ca"
	for dir in "$root"/secrets/tls/*; do
		name=${dir##*/}
		owner=$uid:$gid
		[ "$name" != postgres ] || owner=$postgres:$postgres
		kaged certs issue "$ca" "$name" >/dev/null
		chmod 0711 "$dir"
		for file in ca.crt tls.key tls.crt; do
			put "$dir/$file" "$owner" <"$ca/$name/$file"
		done
	done
fi

keep "$root/secrets/database/password"
printf '%s' "$secret" | put "$root/secrets/database/password" "$postgres:$postgres"
at='postgres:5432/kaged?sslmode=disable'
[ -z "${KAGED_MTLS:-}" ] || at='postgres.kaged:5432/kaged?sslmode=verify-full&sslrootcert=/run/secrets/tls/ca.crt'
printf 'postgres://kaged_owner:%s@%s\n' "$secret" "$at" | put "$root/secrets/database/url" "$uid:$gid"

keep "$root/secrets/bus/token"
printf '%s' "$secret" | put "$root/secrets/bus/token" "$(id -u):$(id -g)"
if [ -n "${KAGED_MTLS:-}" ]; then
	printf 'tls://nats.kaged:4222\n' | put "$root/secrets/bus/url" "$uid:$gid"
	put "$root/secrets/bus/nats.conf" "$uid:$gid" <"${0%/*}/nats/mtls.conf"
else
	printf 'nats://%s@nats:4222\n' "$secret" | put "$root/secrets/bus/url" "$uid:$gid"
	put "$root/secrets/bus/nats.conf" "$uid:$gid" <<EOF
listen: "0.0.0.0:4222"
http: "127.0.0.1:8222"
authorization { token: "$secret" }
jetstream { store_dir: "/data" }
EOF
fi

keep "$root/secrets/services/token"
printf '%s' "$secret" | put "$root/secrets/services/token" "$uid:$gid"

for dir in "$root"/data/*; do
	if [ "$(stat -c %u:%g "$dir")" != "$uid:$gid" ]; then
		chown -hR "$uid:$gid" "$dir"
	fi
	chmod 0700 "$dir"
done
echo "setup: the volumes are ready for user $uid:$gid"
