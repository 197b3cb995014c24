// Command gen writes docs/reference/api.md. `go generate` runs it in the folder of package openapi.
package main

import (
	"log"
	"os"

	"kaged.dev/services/gateway/internal/openapi"
)

func main() {
	text, err := openapi.Reference()
	if err == nil {
		err = os.WriteFile("../../../../docs/reference/api.md", []byte(text), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}
