// Package netnstest makes real network namespaces for tests, in each way that cages use, and runs programs in them.
//
// A second process of the test binary holds a namespace: TestMain of a package that uses it begins with
//
//	if netnstest.Invoked() {
//		netnstest.Main() // does not return
//	}
package netnstest
