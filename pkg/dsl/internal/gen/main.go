// Command gen writes the JSON Schema of the project file to docs/reference, and the table of protected names into
// the reference of the cage.
package main

import (
	"log"
	"os"

	"kaged.dev/pkg/dsl"
)

const cagePage = "../../docs/reference/cage.md"

func main() {
	schema, err := dsl.Schema(dsl.Version)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("../../docs/reference/project.schema.json", append(schema, '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
	page, err := os.ReadFile(cagePage)
	if err != nil {
		log.Fatal(err)
	}
	text, err := dsl.WithProtectedTable(string(page))
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(cagePage, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}
