// Package console_test tests the console in a real browser, and the TypeScript client in a real Node, with a running
// kaged and a fake model.
package console_test

import (
	"testing"

	"kaged.dev/services/kaged"
	"kaged.dev/services/sandbox-supervisor/shim"
	"kaged.dev/test/e2e/kagedtest"
)

func TestMain(m *testing.M) {
	if shim.Invoked() {
		shim.Main()
	}
	kagedtest.Main(m, map[string]func() int{"kaged": kaged.Main})
}
