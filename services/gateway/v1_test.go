package gateway_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"kaged.dev/services/gateway/internal/openapi"
	"kaged.dev/services/gateway/internal/server"
)

// No published part of version 1 of the API disappears: no route, field, value or error code, and no field changes
// its type (A-WIRE-VERS-03, A-ERR-SHAPE-02). The list has every part; `make generate` adds new ones.
func TestVersion1OnlyGrows(t *testing.T) {
	data, err := os.ReadFile("testdata/v1.txt")
	if err != nil {
		t.Fatal(err)
	}
	now := openapi.Published(server.ContractRoutes())
	was := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for _, line := range was {
		if !slices.Contains(now, line) {
			t.Errorf("clients of version 1 rely on %q", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(was, line) {
			t.Errorf("testdata/v1.txt lacks %q: run  make generate", line)
		}
	}
}
