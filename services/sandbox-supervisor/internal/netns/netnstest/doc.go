// Package netnstest makes real network namespaces for tests, in each way that a cage gets one, and runs programs in
// them.
//
// A namespace is held by the test binary, started once more: TestMain of a package that uses it begins with
//
//	if netnstest.Invoked() {
//		netnstest.Main() // does not return
//	}
package netnstest
