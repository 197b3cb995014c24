package fakelsp

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// asked answers a request and reports whether the server continues.
func (s *Server) asked(m message) bool {
	switch {
	case s.is(Hang):
		return true
	case s.is(GivesUp) && s.gaveUp < 3, s.is(Loads):
		s.send(map[string]any{"id": m.ID, "error": map[string]any{"code": -32800 - s.gaveUp%3, "message": "given up"}})
		s.gaveUp++
		return true
	case s.is(Garbage):
		io.WriteString(s.out, "panic: no frame\n\n{}")
		return true
	case s.is(Half):
		io.WriteString(s.out, "Content-Length: 4000\r\n\r\n{\"jsonrpc\"")
		return false
	case s.is(Huge):
		io.WriteString(s.out, "Content-Length: 100000000\r\n\r\n")
		io.WriteString(s.out, strings.Repeat("x", 1<<16))
		return true
	case s.is(CrashOn):
		return false
	case s.is(Hog):
		var all [][]byte
		for {
			all = append(all, make([]byte, 64<<20))
			for i := range all[len(all)-1] {
				all[len(all)-1][i] = byte(i)
			}
		}
	case s.is(Bomb):
		for exec.Command("sleep", "600").Start() == nil {
			continue
		}
		return false
	case s.is(WrongID):
		s.reply(json.RawMessage("987654"), nil)
	case s.is(ApplyEdit):
		s.send(map[string]any{"id": 1, "method": "workspace/applyEdit", "params": map[string]any{"edit": map[string]any{}}})
	case s.is(Flood):
		for i := range 20_000 {
			s.send(map[string]any{"method": "textDocument/publishDiagnostics", "params": map[string]any{
				"uri": uri(fmt.Sprintf("/flood/%d", i)), "diagnostics": []any{},
			}})
		}
	}
	result, refusal := s.result(m)
	if refusal != "" {
		s.send(map[string]any{"id": m.ID, "error": map[string]any{"code": -32803, "message": refusal}})
		return true
	}
	s.reply(m.ID, result)
	if s.is(ReusedID) {
		s.reply(m.ID, "a second answer")
	}
	return true
}

// result answers a request, or refuses it with a sentence.
func (s *Server) result(m message) (any, string) {
	var p struct {
		TextDocument struct{ URI string }
		Position     struct{ Line, Character int }
		Range        struct{ Start struct{ Line, Character int } }
		Context      struct{ IncludeDeclaration bool }
		Query        string
		NewName      string
		Files        []struct{ OldURI, NewURI string }
	}
	_ = json.Unmarshal(m.Params, &p)
	path := pathOf(p.TextDocument.URI)
	word := s.word(path, p.Position.Line, p.Position.Character)
	switch m.Method {
	case "textDocument/diagnostic":
		return map[string]any{"kind": "full", "items": s.diagnostics(path)}, ""
	case "textDocument/hover":
		if word == "" {
			return nil, ""
		}
		return map[string]any{"contents": map[string]string{"kind": "markdown", "value": "```fake\n" + word +
			"\n```\n\nThe word " + word + "."}}, ""
	case "textDocument/definition", "textDocument/typeDefinition", "textDocument/implementation":
		list := []any{}
		for _, at := range s.places(word) {
			if at.defines {
				list = append(list, s.location(at))
			}
		}
		return list, ""
	case "textDocument/references":
		list := []any{}
		for _, at := range s.places(word) {
			if !at.defines || p.Context.IncludeDeclaration {
				list = append(list, s.location(at))
			}
		}
		return list, ""
	case "textDocument/documentSymbol", "workspace/symbol":
		list := []any{}
		for _, at := range s.places("") {
			if m.Method == "workspace/symbol" && strings.Contains(at.text[at.from:at.to], p.Query) || at.path == path {
				list = append(list, map[string]any{"name": at.text[at.from:at.to], "kind": 12, "location": s.location(at)})
			}
		}
		return list, ""
	case "textDocument/prepareRename":
		if word == "def" {
			return nil, "def cannot be renamed."
		}
		return map[string]bool{"defaultBehavior": true}, ""
	case "textDocument/rename":
		return s.renamed(word, p.NewName), ""
	case "workspace/willRenameFiles":
		from, to := stem(p.Files[0].OldURI), stem(p.Files[0].NewURI)
		return s.renamed(from, to), ""
	case "workspace/executeCommand":
		return s.tsserver(m.Params), ""
	case "test/done":
		if s.is(Status) {
			s.send(map[string]any{"method": "experimental/serverStatus", "params": map[string]any{
				"health": "warning", "quiescent": true, "message": "no\nstandard library",
			}})
			return nil, ""
		}
		s.send(map[string]any{"method": "$/progress", "params": map[string]any{
			"token": "t",
			"value": map[string]any{"kind": "end"},
		}})
		return nil, ""
	case "textDocument/codeAction":
		return s.fixes(path, p.Range.Start.Line), ""
	}
	return nil, "The method " + m.Method + " is not answered."
}

// tsserver answers as the tsserver of typescript-language-server does; all errors are semantic ones.
func (s *Server) tsserver(params json.RawMessage) any {
	var p struct{ Arguments []json.RawMessage }
	_ = json.Unmarshal(params, &p)
	var kind string
	var of struct{ File string }
	_ = json.Unmarshal(p.Arguments[0], &kind)
	_ = json.Unmarshal(p.Arguments[1], &of)
	body := []any{}
	if kind == "semanticDiagnosticsSync" {
		for i, l := range strings.Split(s.text(pathOf(of.File)), "\n") {
			if at := strings.Index(l, "ERROR"); at >= 0 {
				body = append(body, map[string]any{
					"start": map[string]int{"line": i + 1, "offset": at + 1}, "end": map[string]int{"line": i + 1, "offset": at + 6},
					"text": "ERROR in " + l, "code": 7, "category": "error",
				})
			}
		}
	}
	return map[string]any{"type": "response", "success": true, "body": body}
}

func stem(uri string) string {
	name := uri[strings.LastIndex(uri, "/")+1:]
	return strings.TrimSuffix(name, ".fake")
}

// renamed returns the workspace edit that replaces every occurrence of a word by another.
func (s *Server) renamed(word, to string) map[string]any {
	changes := map[string][]any{}
	for _, at := range s.places(word) {
		l := s.location(at)
		u := l["uri"].(string)
		changes[u] = append(changes[u], map[string]any{"range": l["range"], "newText": to})
		if s.is(Overlap) {
			changes[u] = append(changes[u], map[string]any{"range": l["range"], "newText": "again"})
		}
	}
	return map[string]any{"changes": changes}
}

// fixes returns the code actions of a line: they replace ERROR by FINE.
func (s *Server) fixes(path string, line int) []any {
	lines := strings.Split(s.text(path), "\n")
	if line >= len(lines) {
		return []any{}
	}
	at := strings.Index(lines[line], "ERROR")
	if at < 0 {
		return []any{}
	}
	edit := map[string]any{"changes": map[string]any{uri(path): []any{map[string]any{"range": s.span(lines[line], line,
		at, at+5), "newText": "FINE"}}}}
	return []any{map[string]any{"title": "Call it fine", "kind": "quickfix", "isPreferred": true, "edit": edit}}
}
