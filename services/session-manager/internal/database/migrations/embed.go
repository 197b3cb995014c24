// Package migrations holds the schema session_manager in tern's format. A released migration is never edited; a
// change is a new file.
package migrations

import "embed"

// Schema is the name of the Postgres schema of the tables.
const Schema = "session_manager"

// Files are the migrations.
//
//go:embed *.sql
var Files embed.FS
