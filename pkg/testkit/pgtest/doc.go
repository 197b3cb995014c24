// Package pgtest gives tests real PostgreSQL databases.
//
// A test binary that asks for a database gets one server for all its tests: this binary, started once more as a child
// that only runs the server. The child stops the server when its standard input ends, which the kernel ensures at any
// end of the parent, so that no server survives a test that panics, hangs or is killed; and no goroutine of the server
// is in the tested process, where goleak would find it. That child is why this package has an init function.
//
// Clusters are made once and kept in slots under the user's cache folder, each used by one test binary at a time: a
// start takes a tenth of a second, and databases that were migrated once serve as templates in later runs. They give
// durability up for speed. Removing the folder kaged-pgtest is always safe while no test runs.
package pgtest
