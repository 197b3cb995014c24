#!/bin/sh
# The login of the services, which may change no schema. Its password is in the secret kaged-database.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$KAGED_APP_PASSWORD" -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
create role kaged_app login password :'password';
SQL
