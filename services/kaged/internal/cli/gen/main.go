// Command gen writes docs/reference/cli.md and docs/reference/tools.md. Run it with go generate in
// services/kaged/internal/cli.
package main

import (
	"bytes"
	"context"
	"log"
	"os"
	"path/filepath"

	"kaged.dev/services/kaged"
	"kaged.dev/services/kaged/internal/cli"
	"kaged.dev/services/kaged/internal/cli/tools"
	"kaged.dev/services/kaged/internal/workbench"
)

const reference = "../../../../docs/reference"

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	var b bytes.Buffer
	cli.WriteReference(&b)
	if err := os.WriteFile(filepath.Join(reference, "cli.md"), b.Bytes(), 0o644); err != nil {
		return err
	}
	listing, err := catalogue()
	if err != nil {
		return err
	}
	b.Reset()
	tools.WriteReference(&b, listing)
	return os.WriteFile(filepath.Join(reference, "tools.md"), b.Bytes(), 0o644)
}

// catalogue returns the tools of kaged without configuration, in a folder without a project.
func catalogue() (workbench.Listing, error) {
	empty, err := os.MkdirTemp("", "kaged-gen-")
	if err != nil {
		return workbench.Listing{}, err
	}
	defer os.RemoveAll(empty)
	bench, err := workbench.Open(workbench.Options{
		Root: empty, Getenv: func(string) string { return "" }, Stderr: os.Stderr, Modules: kaged.Modules(),
	})
	if err != nil {
		return workbench.Listing{}, err
	}
	listing, err := bench.List(context.Background(), "")
	if cerr := bench.Close(); err == nil {
		err = cerr
	}
	return listing, err
}
