// Command gen writes docs/reference/api.md and the types of the TypeScript client, and adds the new parts of the API
// to the list of the published ones. `go generate` runs it in the folder of package openapi.
package main

import (
	"log"
	"os"
	"slices"
	"strings"

	"kaged.dev/services/gateway/internal/openapi"
	"kaged.dev/services/gateway/internal/server"
)

const (
	root = "../../../../"
	// v1 lists every published part of the API. A part stays there, so that a test fails when it disappears.
	v1 = "services/gateway/testdata/v1.txt"
)

func main() {
	for path, text := range map[string]func() (string, error){
		"docs/reference/api.md":       openapi.Reference,
		"clients/ts/src/types.gen.ts": openapi.TypeScript,
		v1:                            published,
	} {
		text, err := text()
		if err == nil {
			err = os.WriteFile(root+path, []byte(text), 0o644)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}

// published returns the list with the new parts.
func published() (string, error) {
	data, err := os.ReadFile(root + v1)
	if err != nil {
		return "", err
	}
	was := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	all := append(was, openapi.Published(server.ContractRoutes())...)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n") + "\n", nil
}
