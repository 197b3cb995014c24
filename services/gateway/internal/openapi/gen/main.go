// Command gen writes docs/reference/api.md and the types of the TypeScript client. `go generate` runs it in the
// folder of package openapi.
package main

import (
	"log"
	"os"

	"kaged.dev/services/gateway/internal/openapi"
)

const root = "../../../../"

func main() {
	for path, text := range map[string]func() (string, error){
		"docs/reference/api.md":       openapi.Reference,
		"clients/ts/src/types.gen.ts": openapi.TypeScript,
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
