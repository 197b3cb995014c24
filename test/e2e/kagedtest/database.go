package kagedtest

import (
	"testing"

	"kaged.dev/pkg/host"
	"kaged.dev/pkg/testkit/pgtest"
)

// Database returns the owner's and the services' URL of a database on the shared test server, with the migrated, empty
// schemas of the modules. It is dropped when the test ends.
func Database(t testing.TB, modules []host.Module) (owner, app string) {
	t.Helper()
	var schemas []pgtest.Schema
	for _, m := range modules {
		if m.Schema.Files != nil {
			schemas = append(schemas, pgtest.Schema(m.Schema))
		}
	}
	return pgtest.Migrated(t, schemas...)
}
