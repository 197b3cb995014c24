// Package fakelsp is a language server for tests. In its language every word is a symbol, a line "def NAME" defines
// one, and a line with ERROR has an error. Its mode selects a behaviour, such as every kind of misbehaviour.
package fakelsp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// The modes, joined by commas.
const (
	Pull      = "pull"       // diagnostics are pulled; without this mode they are published with versions
	NoVersion = "no-version" // publications name no version
	// publications name no version and are sent only with errors; requests to a tsserver are answered
	Tsserver  = "tsserver"
	Silent    = "silent"     // publications name no version and are sent only with errors
	UTF8      = "utf-8"      // characters are bytes
	Hang      = "hang"       // requests after the handshake are never answered
	Garbage   = "garbage"    // text without a frame instead of the first answer
	Half      = "half"       // half a frame instead of the first answer, then the end of the output
	Huge      = "huge"       // the header of a message of 100 MB
	WrongID   = "wrong-id"   // before each answer comes one with an unknown id
	ReusedID  = "reused-id"  // each answer is sent twice
	ApplyEdit = "apply-edit" // before each answer the server requests an edit
	Outside   = "outside"    // edits and positions are in /etc/passwd
	Flood     = "flood"      // before each answer come 20,000 publications
	Deaf      = "deaf"       // shutdown, exit and the end of input have no effect
	Fork      = "fork"       // the server starts a process that outlives it
	Overlap   = "overlap"    // edits of a rename overlap
	Busy      = "busy"       // a task starts with the handshake and ends with the request test/done
	Status    = "status"     // test/done reports by experimental/serverStatus that the server has loaded, with a warning
	Hog       = "hog"        // the first request makes the server use all available memory
	Bomb      = "bomb"       // the first request makes the server start processes up to the limit
	CrashOn   = "crash"      // the first request after the handshake ends the server
	GivesUp   = "gives-up"   // the first three requests after the handshake are given up, as by a server that loads
	Late      = "late"       // the client treats the server as one that notices changes late
	Loads     = "loads"      // every request after the handshake is given up
	// files are read once, before the handshake ends, and again when the client says that they changed; a FIFO named gate
	// in the root delays the end of the handshake until a writer has closed it
	Caches = "caches"
)

// Server is a running fake server.
type Server struct {
	mode []string
	out  io.Writer
	root string

	mu   sync.Mutex // guards the fields below and the writes
	docs map[string]doc
	read map[string]string // the files on disk by path, in the mode Caches
	seen []string          // the received methods, in their order
	// the client's answers to requested edits
	refused []string
	folders []string // the folders that the client named
	gaveUp  int      // the number of cancelled requests
}

type doc struct {
	version int
	text    string
}

// New returns a server that writes to out.
func New(out io.Writer, mode string) *Server {
	return &Server{mode: strings.Split(mode, ","), out: out, docs: map[string]doc{}}
}

// Seen returns the received methods, in their order.
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Folders returns the folders that the client named.
func (s *Server) Folders() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.folders)
}

// Refused returns the client's answers to requested edits.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

func (s *Server) is(mode string) bool { return slices.Contains(s.mode, mode) }

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
}

// Serve reads messages until in or the server ends.
func (s *Server) Serve(in io.Reader) {
	r := bufio.NewReader(in)
	for {
		length := 0
		for {
			header, err := r.ReadString('\n')
			if err != nil {
				if s.is(Deaf) {
					select {}
				}
				return
			}
			if header = strings.TrimSpace(header); header == "" {
				break
			}
			if n, ok := strings.CutPrefix(header, "Content-Length: "); ok {
				length, _ = strconv.Atoi(n)
			}
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		var m message
		if json.Unmarshal(body, &m) != nil || !s.take(m) {
			return
		}
	}
}

// take handles one message and reports whether the server continues.
func (s *Server) take(m message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, m.Method)
	switch {
	case m.Method == "":
		s.refused = append(s.refused, string(m.Result))
		return true
	case m.ID == nil:
		return s.told(m)
	case m.Method == "initialize":
		s.begin(m)
		return true
	case m.Method == "shutdown":
		if !s.is(Deaf) {
			s.reply(m.ID, nil)
		}
		return true
	}
	return s.asked(m)
}

// begin answers the handshake. s.mu is held.
func (s *Server) begin(m message) {
	var p struct {
		RootURI          string
		WorkspaceFolders []struct{ URI string }
	}
	_ = json.Unmarshal(m.Params, &p)
	s.root = pathOf(p.RootURI)
	for _, f := range p.WorkspaceFolders {
		s.folders = append(s.folders, pathOf(f.URI))
	}
	caps := map[string]any{
		"textDocumentSync": 1, "hoverProvider": true, "definitionProvider": true, "referencesProvider": true,
		"documentSymbolProvider":  true,
		"workspaceSymbolProvider": true, "codeActionProvider": true,
		"renameProvider":         map[string]bool{"prepareProvider": true},
		"typeDefinitionProvider": true, "implementationProvider": true,
		"workspace": map[string]any{"fileOperations": map[string]any{"willRename": map[string]any{}}},
	}
	if s.is(Pull) {
		caps["diagnosticProvider"] = map[string]bool{}
	}
	if s.is(Tsserver) {
		caps["executeCommandProvider"] = map[string]any{"commands": []string{"typescript.tsserverRequest"}}
	}
	if s.is(UTF8) {
		caps["positionEncoding"] = "utf-8"
	}
	if s.is(Caches) {
		s.cache()
	}
	if s.is(Fork) {
		orphan := exec.Command("sleep", "600")
		_ = orphan.Start()
	}
	s.reply(m.ID, map[string]any{"capabilities": caps})
	if s.is(Busy) {
		s.send(map[string]any{"method": "$/progress", "params": map[string]any{
			"token": "t", "value": map[string]any{"kind": "begin", "title": "Loading", "percentage": 40},
		}})
	}
}

// told handles a notification.
func (s *Server) told(m message) bool {
	var p struct {
		TextDocument struct {
			URI     string
			Version int
			Text    string
		}
		ContentChanges []struct{ Text string }
		Changes        []struct{ URI string }
	}
	_ = json.Unmarshal(m.Params, &p)
	path := pathOf(p.TextDocument.URI)
	switch m.Method {
	case "exit":
		return s.is(Deaf)
	case "textDocument/didOpen":
		s.docs[path] = doc{p.TextDocument.Version, p.TextDocument.Text}
		s.publish(path)
	case "textDocument/didChange":
		s.docs[path] = doc{p.TextDocument.Version, p.ContentChanges[0].Text}
		s.publish(path)
	case "textDocument/didClose":
		delete(s.docs, path)
	case "workspace/didChangeWatchedFiles":
		for _, c := range p.Changes {
			delete(s.read, pathOf(c.URI))
		}
	}
	return true
}

// cache reads the files, and waits at the gate.
func (s *Server) cache() {
	s.read = map[string]string{}
	for _, path := range s.files() {
		s.text(path)
	}
	_, _ = os.ReadFile(filepath.Join(s.root, "gate")) // it fails without a gate
}

// publish sends the diagnostics of a document.
func (s *Server) publish(path string) {
	if s.is(Pull) || s.is(Hang) {
		return
	}
	params := map[string]any{"uri": uri(path), "diagnostics": s.diagnostics(path)}
	terse := s.is(Tsserver) || s.is(Silent)
	if terse && len(s.diagnostics(path)) == 0 {
		return
	}
	if !s.is(NoVersion) && !terse {
		params["version"] = s.docs[path].version
	}
	s.send(map[string]any{"method": "textDocument/publishDiagnostics", "params": params})
}

func (s *Server) diagnostics(path string) []any {
	list := []any{}
	for i, l := range strings.Split(s.text(path), "\n") {
		if at := strings.Index(l, "ERROR"); at >= 0 {
			list = append(list, map[string]any{
				"range": s.span(l, i, at, at+5), "severity": 1, "code": 7, "source": "fake",
				"message": "ERROR in " + l,
			})
		}
		if at := strings.Index(l, "WARN"); at >= 0 {
			list = append(list, map[string]any{
				"range": s.span(l, i, at, at+4), "severity": 2, "code": "w", "source": "fake",
				"message": "WARN in " + l,
			})
		}
	}
	return list
}

// text returns a document as the client sent it, or else the file on disk.
func (s *Server) text(path string) string {
	if d, ok := s.docs[path]; ok {
		return d.text
	}
	if text, ok := s.read[path]; ok {
		return text
	}
	data, _ := os.ReadFile(path)
	if s.read != nil {
		s.read[path] = string(data)
	}
	return string(data)
}

// span returns a range of bytes of a line in the server's units.
func (s *Server) span(l string, line, from, to int) map[string]any {
	unit := func(at int) int {
		if s.is(UTF8) {
			return at
		}
		n := 0
		for _, r := range l[:at] {
			n++
			if r > 0xFFFF {
				n++
			}
		}
		return n
	}
	return map[string]any{
		"start": map[string]int{"line": line, "character": unit(from)},
		"end":   map[string]int{"line": line, "character": unit(to)},
	}
}

// place is a word of a file.
type place struct {
	path           string
	line, from, to int
	text           string
	defines        bool
}

// files returns the files of the language below the root.
func (s *Server) files() (list []string) {
	_ = filepath.WalkDir(s.root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(p, ".fake") {
			list = append(list, p)
		}
		return nil
	})
	return list
}

// places returns the positions of a word, or every definition for "".
func (s *Server) places(word string) (list []place) {
	for _, path := range s.files() {
		for i, l := range strings.Split(s.text(path), "\n") {
			for at := 0; at < len(l); {
				end := at
				for end < len(l) && letter(rune(l[end])) {
					end++
				}
				if end == at {
					at++
					continue
				}
				defines := strings.HasPrefix(l, "def ") && at == 4
				if w := l[at:end]; w == word || word == "" && defines {
					list = append(list, place{path, i, at, end, l, defines})
				}
				at = end
			}
		}
	}
	return list
}

func letter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// word returns the word at a request's position.
func (s *Server) word(path string, line, character int) string {
	lines := strings.Split(s.text(path), "\n")
	if line >= len(lines) {
		return ""
	}
	l, at := lines[line], 0
	for at < len(l) {
		start := at
		for at < len(l) && letter(rune(l[at])) {
			at++
		}
		if at == start {
			at++
			continue
		}
		r := s.span(l, line, start, at)
		if r["start"].(map[string]int)["character"] <= character && character <= r["end"].(map[string]int)["character"] {
			return l[start:at]
		}
	}
	return ""
}

func (s *Server) location(p place) map[string]any {
	if s.is(Outside) {
		p.path = "/etc/passwd"
	}
	return map[string]any{"uri": uri(p.path), "range": s.span(p.text, p.line, p.from, p.to)}
}

func (s *Server) reply(id json.RawMessage, result any) {
	s.send(map[string]any{"id": id, "result": result})
}

func (s *Server) send(m map[string]any) {
	m["jsonrpc"] = "2.0"
	body, _ := json.Marshal(m)
	fmt.Fprintf(s.out, "Content-Length: %d\r\n\r\n%s", len(body), body)
}

func uri(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

func pathOf(text string) string {
	u, _ := url.Parse(text)
	return u.Path
}
