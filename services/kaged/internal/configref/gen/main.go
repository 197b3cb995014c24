// Command gen writes docs/reference/config.md. Run it with go generate in services/kaged/internal/configref.
package main

import (
	"log"
	"os"
	"path/filepath"

	"kaged.dev/services/kaged"
	"kaged.dev/services/kaged/internal/configref"
)

func main() {
	const root = "../../../.."
	page, err := configref.Page(root, kaged.Modules())
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "docs/reference/config.md"), []byte(page), 0o644); err != nil {
		log.Fatal(err)
	}
}
