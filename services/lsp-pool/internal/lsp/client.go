package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/retry"
)

// ErrServer is the error of calls after the end of the connection to the server: the server has ended, or exceeded a
// limit.
var ErrServer = errors.New("the language server is gone")

// Refusal is an error with which a server answers a request.
type Refusal struct {
	Code    int64
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// Options are the settings of a client.
type Options struct {
	// Files are the files that are sent to the server.
	Files Files
	// Root is the absolute path of the project's root, the only workspace folder.
	Root string
	// Settings answer workspace/configuration by section. initialize sends them as options.
	Settings map[string]any
	// Language returns the protocol's name of the language of a file.
	Language func(path string) string
	// MessageBytes is the maximum size of a server's message, DocumentBytes of a document, Documents the maximum number of
	// open documents.
	MessageBytes, DocumentBytes, Documents int
	// Pulls is true if the server answers requests for diagnostics although it does not announce this.
	Pulls bool
	// Versions is true if publications about open files name their version. The client also detects it.
	Versions bool
	// Status is true if the server reports by experimental/serverStatus when it has loaded. It counts as loading until
	// then.
	Status bool
	// Lists matches the log message with which the server says that it has the list of the project's files. The server
	// counts as loading until then, for at most listTime. Lists is nil for servers without such a message.
	Lists *regexp.Regexp
	// Shown selects the files that are opened when they appear or change on disk, because the server notices both late.
	// With nil no file is opened so.
	Shown func(path string) bool
	// Asks is true if the server requests its settings; otherwise they are sent after the handshake.
	Asks bool
	// Quiet applies to servers that name no versions: diagnostics of a file count as complete after this time without
	// a publication.
	Quiet time.Duration
}

// Client is the connection to one server. It is safe for concurrent use.
type Client struct {
	opts Options
	conn *jsonrpc2.Conn
	// results are the raw results of the calls of conn.
	results *results
	// capabilities are the capabilities that the server announced, raw. encoding is the unit of its positions.
	capabilities json.RawMessage
	provides     map[string]json.RawMessage
	encoding     Encoding
	started      time.Time

	docs documents

	mu        sync.Mutex              // guards the fields below
	dynamic   map[string]string       // methods by registration id
	watchers  map[string][]watcher    // selected files by registration id
	published map[string]*publication // by path
	tasks     map[string]Task         // by token
	warning   string                  // the reason why the server calls its answers incomplete, or ""
	numbers   uint64                  // the number of publications
	versions  bool                    // publications about open files name their version
	changed   chan struct{}           // closed and replaced at each publication and each end of a task
}

// Task is work that a server reports on.
type Task struct {
	Title, Message string
	// Percent is -1 if the server gives no number.
	Percent int

	until time.Time // the end of a task of the client's own
}

const (
	// taskCount, registrationCount and publicationFiles limit the stored notifications of a server.
	taskCount         = 64
	registrationCount = 256
	publicationFiles  = 4096
	// publishedPerFile limits the stored diagnostics of one file, answerText one text in an answer.
	publishedPerFile = 1000
	answerText       = 64 << 10
)

// Connect initializes a server that reads and writes conn. The end of ctx ends the wait, but neither conn nor the
// client. Connect closes conn if it fails.
func Connect(ctx context.Context, conn io.ReadWriteCloser, opts Options) (*Client, error) {
	c := &Client{
		opts: opts, started: time.Now(), dynamic: map[string]string{}, watchers: map[string][]watcher{},
		published: map[string]*publication{}, tasks: map[string]Task{}, versions: opts.Versions,
		changed: make(chan struct{}), encoding: UTF16,
	}
	if opts.Status {
		c.tasks[statusTask] = loading
	}
	c.docs.open = map[string]*document{}
	stream := newFrames(conn, opts.MessageBytes)
	c.results = &stream.results
	c.conn = jsonrpc2.NewConn(context.WithoutCancel(ctx), stream, c, jsonrpc2.SetLogger(log.New(io.Discard, "", 0)))
	if err := c.initialize(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// initialize performs the handshake.
func (c *Client) initialize(ctx context.Context) error {
	folder := map[string]string{"uri": URI(c.opts.Root), "name": filepath.Base(c.opts.Root)}
	params := map[string]any{
		"processId": nil, "clientInfo": map[string]string{"name": "kaged"}, "rootUri": URI(c.opts.Root),
		"rootPath":         c.opts.Root,
		"workspaceFolders": []any{folder}, "capabilities": ClientCapabilities, "trace": "off",
	}
	if c.opts.Settings != nil {
		params["initializationOptions"] = c.opts.Settings
	}
	var answer struct {
		Capabilities json.RawMessage `json:"capabilities"`
	}
	if err := c.Call(ctx, "initialize", params, &answer); err != nil {
		return err
	}
	if err := json.Unmarshal(answer.Capabilities, &c.provides); err != nil {
		return fmt.Errorf("the language server announced no capabilities: %w", err)
	}
	c.capabilities = answer.Capabilities
	var encoding Encoding
	if json.Unmarshal(c.provides["positionEncoding"], &encoding) == nil && (encoding == UTF8 || encoding == UTF32) {
		c.encoding = encoding
	}
	if c.opts.Lists != nil {
		c.begin(listTask, Task{Title: "listing files", Percent: -1}, listTime)
	}
	if err := c.notify("initialized", struct{}{}); err != nil {
		return err
	}
	if c.opts.Settings == nil || c.opts.Asks {
		return nil
	}
	return c.notify("workspace/didChangeConfiguration", map[string]any{"settings": c.opts.Settings})
}

// ClientCapabilities are the capabilities of every client. Positions are counted in UTF-16; pulled diagnostics are
// preferred; a server may not apply edits.
var ClientCapabilities = json.RawMessage(`{
"general":{"positionEncodings":["utf-16"]},
"experimental":{"serverStatusNotification":true},
"window":{"workDoneProgress":true,"showMessage":{},"showDocument":{"support":false}},
"workspace":{"applyEdit":false,"configuration":true,"workspaceFolders":true,
  "didChangeConfiguration":{"dynamicRegistration":true},
 "didChangeWatchedFiles":{"dynamicRegistration":true,"relativePatternSupport":true},
 "symbol":{"dynamicRegistration":true},
  "diagnostics":{"refreshSupport":true},
 "fileOperations":{"willRename":true,"didRename":true},
 "workspaceEdit":{"documentChanges":true,"resourceOperations":["create","rename","delete"],
  "failureHandling":"transactional"}},
"textDocument":{"synchronization":{"dynamicRegistration":true,"didSave":true},
 "hover":{"dynamicRegistration":true,"contentFormat":["markdown","plaintext"]},
 "definition":{"dynamicRegistration":true,"linkSupport":true},"typeDefinition":{"dynamicRegistration":true,
  "linkSupport":true},
 "implementation":{"dynamicRegistration":true,"linkSupport":true},"references":{"dynamicRegistration":true},
 "documentSymbol":{"dynamicRegistration":true,"hierarchicalDocumentSymbolSupport":true},
 "callHierarchy":{"dynamicRegistration":true},"typeHierarchy":{"dynamicRegistration":true},
 "rename":{"dynamicRegistration":true,"prepareSupport":true,"prepareSupportDefaultBehavior":1},
 "codeAction":{"dynamicRegistration":true,"isPreferredSupport":true,"dataSupport":true,
  "resolveSupport":{"properties":["edit"]},
  "codeActionLiteralSupport":{"codeActionKind":{"valueSet":["","quickfix","refactor","refactor.extract",
  "refactor.inline","refactor.rewrite","source","source.organizeImports","source.fixAll"]}}},
 "diagnostic":{"dynamicRegistration":true,"relatedDocumentSupport":false},
 "publishDiagnostics":{"versionSupport":true,"codeDescriptionSupport":false,"dataSupport":true}}}`)

// Capabilities returns the announced capabilities.
func (c *Client) Capabilities() json.RawMessage { return c.capabilities }

// Provides reports whether the server answers a method: because it announced a capability, or registered the method.
func (c *Client) Provides(capability, method string) bool {
	if raw, ok := c.provides[capability]; ok && string(raw) != "null" && string(raw) != "false" {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.dynamic {
		if m == method {
			return true
		}
	}
	return false
}

// Codes of the Language Server Protocol for requests that a server gave up: it started to load something, or another
// query sent it changes or a request of the same kind. The codes say nothing about the request. The client never
// cancels a request, so a cancelled one was given up too: pyright ends a search for references when another begins.
const (
	requestCancelled = -32800
	contentModified  = -32801
	serverCancelled  = -32802
)

// GivenUp reports whether the server gave up the request, which says nothing about the request.
func (r *Refusal) GivenUp() bool { return r.Code <= requestCancelled && r.Code >= serverCancelled }

// givenUp are the pauses before a request that the server gave up is made again.
var givenUp = retry.Pauses{First: 5 * time.Millisecond, Last: 200 * time.Millisecond}

// Call makes a request, and makes it again while the server gives it up. It fails with a [Refusal] if the server
// refuses the request, or gives it up until ctx ends, with ctx's error, and with [ErrServer] if the connection has
// ended; Done is closed then.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	var last error
	for range givenUp.Each(ctx) {
		err := c.call(ctx, method, params, result)
		var refused *Refusal
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if !errors.As(err, &refused) || !refused.GivenUp() {
			return last
		}
	}
	return last
}

func (c *Client) call(ctx context.Context, method string, params, result any) error {
	id := c.results.expect()
	waiter, err := c.conn.DispatchCall(ctx, method, params, jsonrpc2.PickID(jsonrpc2.ID{Num: id}))
	if err == nil {
		err = waiter.Wait(ctx, nil)
	}
	raw := c.results.take(id)
	if to, ok := result.(*json.RawMessage); ok && err == nil {
		*to = raw // it is valid, because it was a part of a message
	} else if result != nil && err == nil {
		err = json.Unmarshal(raw, result)
	}
	var refused *jsonrpc2.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &Refusal{Code: refused.Code, Message: clip.Bytes(strings.ToValidUTF8(refused.Message, "\uFFFD"), answerText)}
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, jsonrpc2.ErrClosed), errors.Is(err, errOver), errors.Is(err, errQueue):
		return c.gone()
	}
	return fmt.Errorf("the language server's answer to %s cannot be read: %w", method, err)
}

func (c *Client) notify(method string, params any) error {
	if err := c.conn.Notify(context.Background(), method, params); err != nil {
		return c.gone()
	}
	return nil
}

// gone closes the connection and returns [ErrServer]. jsonrpc2 ends its calls before it closes the channel of Done, and
// leaves the connection open if a queue is full. Without the close, a caller could regard the connection as usable.
func (c *Client) gone() error {
	c.Close()
	return ErrServer
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.conn.DisconnectNotify() }

// Shutdown requests that the server exits. It returns when the server has closed the connection or ctx has ended.
func (c *Client) Shutdown(ctx context.Context) {
	if c.Call(ctx, "shutdown", nil, nil) != nil {
		return
	}
	if c.notify("exit", nil) != nil {
		return
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
	}
}

// Close ends the connection and returns when the writer has ended.
func (c *Client) Close() { _ = c.conn.Close() }

// Tasks returns the server's tasks in progress.
func (c *Client) Tasks() []Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Task
	for _, t := range c.tasks {
		list = append(list, t)
	}
	return list
}

// Settle waits until the server has no task, until ctx ends, or until the time limit. It reports whether it had to
// wait.
func (c *Client) Settle(ctx context.Context, limit time.Duration) (waited bool) {
	var over <-chan time.Time
	for {
		c.mu.Lock()
		busy, changed := len(c.tasks) > 0, c.changed
		c.mu.Unlock()
		if !busy {
			return over != nil
		}
		if over == nil {
			over = time.After(limit)
		}
		select {
		case <-changed:
		case <-over:
			return true
		case <-c.Done():
			return true
		case <-ctx.Done():
			return true
		}
	}
}

// announce wakes waiters for a publication or the end of a task. c.mu is held.
func (c *Client) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}
