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
	"syscall"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"kaged.dev/pkg/retry"
	lsppool "kaged.dev/services/lsp-pool"
)

// bareProgram is a language server and a place in the one file that it is asked about. Its home folder is the user's if
// home is empty.
type bareProgram struct {
	argv                      []string
	home                      string
	project, name, lang, text string
	line, character           int
	as                        handshake
}

// bareAnswer is a part of the answer to each question.
const bareAnswer = "part1"

// goplsOn is gopls on the module in a folder.
func goplsOn(project string, as handshake) bareProgram {
	return bareProgram{
		argv: []string{"gopls"}, project: project, name: "main.go", lang: "go", text: mainText(0), line: placeLine,
		character: placeCharacter + 1, as: as,
	}
}

// bareServer is a running language server that is used over its standard files, without kaged.
//
// Goroutines: those of jsonrpc2, which end with stop.
type bareServer struct {
	bareProgram
	cmd       *exec.Cmd
	conn      *jsonrpc2.Conn
	uri       string
	published chan int // versions of the file
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

// startBare starts a server in a process group of its own.
func startBare(ctx context.Context, p bareProgram, dir string) (_ *bareServer, err error) {
	b := &bareServer{
		bareProgram: p, cmd: exec.Command(p.argv[0], p.argv[1:]...), uri: "file://" + filepath.Join(p.project, p.name),
		published: make(chan int, 1000),
	}
	b.cmd.Dir, b.cmd.Env, b.cmd.Stderr = p.project, environ(dir), os.Stderr
	if p.home != "" {
		b.cmd.Env = append(b.cmd.Env, "HOME="+p.home)
	}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
	folder := map[string]string{"uri": "file://" + p.project, "name": "m"}
	err = b.conn.Call(ctx, "initialize", map[string]any{
		"rootUri": folder["uri"], "workspaceFolders": []any{folder}, "initializationOptions": p.as.settings,
		"capabilities": p.as.capabilities,
	}, nil)
	if err == nil {
		err = b.conn.Notify(ctx, "initialized", struct{}{})
	}
	if err == nil {
		err = b.conn.Notify(ctx, "textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": b.uri, "languageId": p.lang, "version": 1, "text": p.text,
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
		return slices.Repeat([]any{b.as.settings}, len(p.Items)), nil
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
		"position":     map[string]int{"line": b.line, "character": b.character},
	}, &answer)
	if err == nil && !strings.Contains(string(answer), bareAnswer) {
		err = fmt.Errorf("%s answered %s", b.argv[0], answer)
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
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
	_ = b.cmd.Wait()
}

// end requests that the server exits, and returns when all processes of its group have ended.
func (b *bareServer) end(ctx context.Context) error {
	err := b.conn.Call(ctx, "shutdown", nil, nil)
	if err == nil {
		err = b.conn.Notify(ctx, "exit", nil)
	}
	if err == nil {
		select {
		case <-b.conn.DisconnectNotify():
		case <-ctx.Done():
		}
	}
	b.stop()
	for range (retry.Pauses{First: time.Millisecond, Last: time.Millisecond}).Each(ctx) {
		if err != nil || errors.Is(syscall.Kill(-b.cmd.Process.Pid, 0), syscall.ESRCH) {
			return err
		}
	}
	return ctx.Err()
}

// serveQuick is a language server that is ready at once and gives each question the same answer.
func serveQuick(ctx context.Context, in io.Reader, out io.WriteCloser) error {
	answers := map[string]any{
		"initialize": map[string]any{"capabilities": map[string]any{"hoverProvider": true, "textDocumentSync": 1}},
		"shutdown":   nil,
	}
	answer := func(_ context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
		if r.Method == "exit" {
			return nil, conn.Close()
		}
		if result, known := answers[r.Method]; known {
			return result, nil
		}
		return map[string]string{"contents": bareAnswer}, nil
	}
	stream := jsonrpc2.NewBufferedStream(files{in, out}, jsonrpc2.VSCodeObjectCodec{})
	<-jsonrpc2.NewConn(ctx, stream, jsonrpc2.HandlerWithError(answer)).DisconnectNotify()
	return nil
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
