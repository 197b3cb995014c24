package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	lsppool "kaged.dev/services/lsp-pool"
)

// bareServer is a gopls that is used over its standard files, without kaged.
//
// Goroutines: those of jsonrpc2, which end with stop.
type bareServer struct {
	cmd       *exec.Cmd
	conn      *jsonrpc2.Conn
	uri       string
	published chan int // versions of main.go
	settings  map[string]any
}

// files are the standard files of a program as one connection.
type files struct {
	io.Reader
	io.WriteCloser
}

// handshake is what a client tells a server about itself.
type handshake struct {
	capabilities json.RawMessage
	settings     map[string]any
}

// same returns the handshake of code.lsp.
func same() handshake {
	capabilities, settings := lsppool.Handshake("go")
	return handshake{capabilities, settings}
}

// plain is the handshake of a client that needs no more than the queries of this measurement.
var plain = handshake{capabilities: json.RawMessage(`{"textDocument":{"publishDiagnostics":{"versionSupport":true}}}`)}

// startBare starts a server.
func startBare(ctx context.Context, project, home string, as handshake) (_ *bareServer, err error) {
	b := &bareServer{
		cmd: exec.Command("gopls"), uri: "file://" + filepath.Join(project, "main.go"), published: make(chan int, 1000),
		settings: as.settings,
	}
	b.cmd.Dir, b.cmd.Env, b.cmd.Stderr = project, environ(home), os.Stderr
	in, err := b.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	stream := jsonrpc2.NewBufferedStream(files{out, in}, jsonrpc2.VSCodeObjectCodec{})
	b.conn = jsonrpc2.NewConn(ctx, stream, jsonrpc2.HandlerWithError(b.told))
	folder := map[string]string{"uri": "file://" + project, "name": "m"}
	err = b.conn.Call(ctx, "initialize", map[string]any{
		"rootUri": folder["uri"], "workspaceFolders": []any{folder}, "initializationOptions": as.settings,
		"capabilities": as.capabilities,
	}, nil)
	if err == nil {
		err = b.conn.Notify(ctx, "initialized", struct{}{})
	}
	if err == nil {
		err = b.conn.Notify(ctx, "textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": b.uri, "languageId": "go", "version": 1, "text": mainText(0),
		}})
	}
	if err != nil {
		b.stop()
	}
	return b, err
}

// told handles the server's messages: it records publications, and answers requests for settings with these, others
// with null.
func (b *bareServer) told(_ context.Context, _ *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	var p struct {
		URI     string `json:"uri"`
		Version int    `json:"version"`
		Items   []any  `json:"items"`
	}
	if r.Method == "workspace/configuration" && r.Params != nil && json.Unmarshal(*r.Params, &p) == nil {
		return slices.Repeat([]any{b.settings}, len(p.Items)), nil
	}
	published := r.Method == "textDocument/publishDiagnostics" && r.Params != nil
	if published && json.Unmarshal(*r.Params, &p) == nil && p.URI == b.uri {
		select {
		case b.published <- p.Version:
		default: // publications of earlier rounds may remain
		}
	}
	return nil, nil
}

// ask requests a hover or a definition.
func (b *bareServer) ask(ctx context.Context, action string) error {
	var answer json.RawMessage
	err := b.conn.Call(ctx, "textDocument/"+action, map[string]any{
		"textDocument": map[string]string{"uri": b.uri},
		"position":     map[string]int{"line": placeLine, "character": placeCharacter + 1},
	}, &answer)
	if err == nil && !strings.Contains(string(answer), "part1") {
		err = fmt.Errorf("gopls answered %s", answer)
	}
	return err
}

// change sends a state of main.go and returns when its diagnostics have arrived.
func (b *bareServer) change(ctx context.Context, state int) error {
	version := state + 1
	err := b.conn.Notify(ctx, "textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": b.uri, "version": version},
		"contentChanges": []any{map[string]string{"text": mainText(state)}},
	})
	if err != nil {
		return err
	}
	for {
		select {
		case got := <-b.published:
			if got == version {
				return nil
			}
		case <-time.After(startLimit):
			return errors.New("gopls published no diagnostics")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *bareServer) stop() {
	_ = b.conn.Close()
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// pipe is a process that writes what it reads.
type pipe struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startPipe() (_ *pipe, err error) {
	p := &pipe{cmd: exec.Command("cat")}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// turn sends a line and reads it back.
func (p *pipe) turn() error {
	const line = "a line as long as the one that asks kaged for what is at a place in main.go\n"
	if _, err := io.WriteString(p.in, line); err != nil {
		return err
	}
	_, err := p.out.ReadString('\n')
	return err
}

func (p *pipe) stop() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}
