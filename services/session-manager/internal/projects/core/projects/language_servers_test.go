package projects_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// An operator gets the language servers of their own projects. Servers with the same name in another folder belong to
// others.
func TestLanguageServers(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	f.workspace.servers = []contract.RunningLanguageServer{
		{ID: "2", Lang: "go", ProjectID: "music", Root: dir},
		{ID: "3", Lang: "go", ProjectID: "music", Root: "/elsewhere"},
		{ID: "4", Lang: "go", ProjectID: "other", Root: dir},
		{ID: "1", Lang: "css", ProjectID: "music", Root: dir},
	}
	ids := func(list []contract.RunningLanguageServer, err error) (text string) {
		for _, s := range list {
			text += s.ID
		}
		return fmt.Sprint(text, err)
	}
	if got := ids(f.LanguageServers(f.ctx, "ada", "")); got != "12<nil>" {
		t.Errorf("all: %s", got)
	}
	if got := ids(f.LanguageServers(f.ctx, "ada", "music")); got != "21<nil>" {
		t.Errorf("those of music: %s", got)
	}
	if got := ids(f.LanguageServers(f.ctx, "eve", "")); got != "<nil>" {
		t.Errorf("another operator: %s", got)
	}
	if _, err := f.LanguageServers(f.ctx, "eve", "music"); !errors.Is(err, fault.NotFound) {
		t.Errorf("another operator's music: %v", err)
	}
	if got := ids(f.RestartLanguageServers(f.ctx, "ada", "music", "go")); got != "21<nil>" {
		t.Errorf("restarted: %s", got)
	}
}

// A project that names another program as a language's server needs approval; until then the approved program is used.
func TestLanguageServerNeedsApproval(t *testing.T) {
	f := newFixture(t)
	dir := f.musicFolder()
	f.load(dir)
	first := f.pin()
	write(t, filepath.Join(dir, yamlPath), music+"lsp: {servers: [{lang: go, command: [./evil]}]}\n")
	_, err := f.Reload(f.ctx, "ada", "music")
	got := fmt.Sprint(refused(t, err, fault.Conflict)["widened"])
	if !strings.Contains(got, `key:lsp.servers.go to:["./evil"]`) {
		t.Errorf("widened %s", got)
	}
	if now := f.pin(); now.CompiledHash != first.CompiledHash {
		t.Error("a session would begin with the program that is not approved")
	}
}
