//go:build cgo

package core_test

import (
	"errors"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/syntax"
	"kaged.dev/services/tool-runner/internal/core"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// A grammar that does not work prevents the start of the service; the error names the grammar (T-FM-01).
func TestABrokenGrammarRefusesTheStart(t *testing.T) {
	t.Parallel()
	languages := append([]*syntax.Language{{Name: "cobol"}}, syntax.Languages()...)
	runner, err := core.New(core.Options{}, core.Deps{Languages: languages})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Start(t.Context()); !errors.Is(err, fault.Internal) || !strings.Contains(err.Error(), "cobol") {
		t.Errorf("got %v, want internal with the name of the language", err)
	}
}

// If cages are required, a caller without a cage can call no tool.
func TestCagesOnly(t *testing.T) {
	t.Parallel()
	runner, err := core.New(core.Options{}, core.Deps{Languages: syntax.Languages(), CagesOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	call := &tool.Call{ID: "c", Name: "file.list", From: contract.Caller{SessionID: "s", RunID: "r", Root: t.TempDir()}}
	if _, err := runner.Run(t.Context(), call, nil); !errors.Is(err, fault.CageUnavailable) {
		t.Errorf("got %v, want cage_unavailable", err)
	}
}
