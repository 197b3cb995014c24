// Package pgtest gives tests real PostgreSQL databases.
//
// All tests of a test binary share one server: the same binary, started again as a child that only runs the server. The
// child stops the server when its standard input ends. The kernel closes that input however the parent ends, so that no
// server survives a test that panics, hangs or is killed. The server's goroutines are outside of the tested process,
// where goleak would find them. That child is why this package has an init function.
//
// Clusters are made once and kept in slots, each used by one test binary at a time: a start takes a tenth of a second,
// and databases that were migrated once serve as templates in later runs. They trade durability for speed, and lie in
// memory where there is room, else under the user's cache folder. The folder kaged-pgtest may be removed while no test
// runs.
package pgtest
