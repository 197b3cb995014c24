package lsp

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"kaged.dev/pkg/clip"
)

// Handle answers a server's requests and handles its notifications. The connection's reader calls it, one message at a
// time. It never blocks.
func (c *Client) Handle(ctx context.Context, conn *jsonrpc2.Conn, req *jsonrpc2.Request) {
	var params json.RawMessage
	if req.Params != nil {
		params = *req.Params
	}
	if req.Notif {
		c.told(req.Method, params)
		return
	}
	answer, refusal := c.asked(req.Method, params)
	if refusal != nil {
		_ = conn.ReplyWithError(ctx, req.ID, refusal)
		return
	}
	_ = conn.Reply(ctx, req.ID, answer)
}

// told handles a notification.
func (c *Client) told(method string, params json.RawMessage) {
	switch method {
	case "textDocument/publishDiagnostics":
		c.publish(params)
	case "$/progress":
		c.progress(params)
	case "experimental/serverStatus":
		c.status(params)
	case "window/logMessage":
		c.logged(params)
	}
}

// asked answers a request of the server.
func (c *Client) asked(method string, params json.RawMessage) (any, *jsonrpc2.Error) {
	switch method {
	case "workspace/configuration":
		return c.configuration(params), nil
	case "client/registerCapability":
		c.register(params)
		return nil, nil
	case "client/unregisterCapability":
		c.unregister(params)
		return nil, nil
	case "workspace/workspaceFolders":
		return []any{map[string]string{"uri": URI(c.opts.Root), "name": c.opts.Root}}, nil
	case "workspace/applyEdit":
		return map[string]any{
			"applied":       false,
			"failureReason": "kaged applies no edits that a language server sends unasked.",
		}, nil
	case "window/showDocument":
		return map[string]bool{"success": false}, nil
	case "window/workDoneProgress/create", "window/showMessageRequest":
		return nil, nil
	}
	if strings.HasPrefix(method, "workspace/") && strings.HasSuffix(method, "/refresh") {
		return nil, nil
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "kaged does not answer " + clip.Bytes(method,
		80)}
}

// configuration returns the settings of each section.
func (c *Client) configuration(params json.RawMessage) []any {
	var ask struct {
		Items []struct {
			Section string `json:"section"`
		} `json:"items"`
	}
	if json.Unmarshal(params, &ask) != nil || len(ask.Items) > 256 {
		return []any{}
	}
	answers := make([]any, len(ask.Items))
	for i, item := range ask.Items {
		answers[i] = section(c.opts.Settings, item.Section)
	}
	return answers
}

// section returns the settings under a dotted name. For a name that the settings do not contain it returns the settings
// themselves if the server requests its own section, such as gopls.
func section(settings map[string]any, name string) any {
	if settings == nil {
		return nil
	}
	if name == "" {
		return settings
	}
	if value, ok := settings[name]; ok {
		return value
	}
	head, rest, nested := strings.Cut(name, ".")
	inner, ok := settings[head].(map[string]any)
	switch {
	case ok && nested:
		return section(inner, rest)
	case !nested:
		return settings
	}
	return nil
}

func (c *Client) register(params json.RawMessage) {
	var ask struct {
		Registrations []struct {
			ID      string          `json:"id"`
			Method  string          `json:"method"`
			Options json.RawMessage `json:"registerOptions"`
		} `json:"registrations"`
	}
	if json.Unmarshal(params, &ask) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range ask.Registrations {
		if len(c.dynamic) < registrationCount && len(r.ID)+len(r.Method) < 512 {
			c.dynamic[r.ID] = r.Method
			if r.Method == watchedFiles {
				c.watchers[r.ID] = parseWatchers(r.Options)
			}
		}
	}
	c.announce()
}

func (c *Client) unregister(params json.RawMessage) {
	var ask struct {
		Unregisterations []struct {
			ID string `json:"id"`
		} `json:"unregisterations"`
	}
	if json.Unmarshal(params, &ask) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range ask.Unregisterations {
		delete(c.dynamic, r.ID)
		delete(c.watchers, r.ID)
	}
}

// progress records the start, the progress and the end of a task.
func (c *Client) progress(params json.RawMessage) {
	var p struct {
		Token json.RawMessage `json:"token"`
		Value struct {
			Kind       string   `json:"kind"`
			Title      string   `json:"title"`
			Message    string   `json:"message"`
			Percentage *float64 `json:"percentage"`
		} `json:"value"`
	}
	if json.Unmarshal(params, &p) != nil || len(p.Token) > 256 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	token := string(p.Token)
	task, known := c.tasks[token]
	switch p.Value.Kind {
	case "begin":
		if !known && len(c.tasks) >= taskCount {
			return
		}
		task = Task{Title: line(p.Value.Title), Percent: -1}
	case "report":
		if !known {
			return
		}
	case "end":
		delete(c.tasks, token)
		c.announce()
		return
	default:
		return
	}
	if p.Value.Message != "" {
		task.Message = line(p.Value.Message)
	}
	if p.Value.Percentage != nil {
		task.Percent = int(min(max(*p.Value.Percentage, 0), 100))
	}
	c.tasks[token] = task
}

// Tasks of the client's own. Tokens of servers are JSON texts.
const (
	// statusTask is the task of a server that reports by experimental/serverStatus whether it is loading.
	statusTask = ""
	// listTask is the task of a server that says by a log message that it has the list of the project's files.
	listTask = "files"
	// showTask is the task of a server that notices new files late, of which too many have appeared.
	showTask = "new files"
)

// The longest times of the tasks.
const (
	listTime = 10 * time.Second
	showTime = time.Second
)

// begin adds a task, which ends after limit at the latest. A task in progress with the same token goes on until then.
func (c *Client) begin(token string, task Task, limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	task.until = time.Now().Add(limit)
	c.tasks[token] = task
	time.AfterFunc(limit, func() { c.finish(token, false) })
}

// finish ends a task, unless it has time left and now is false.
func (c *Client) finish(token string, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if task, known := c.tasks[token]; known && (now || !time.Now().Before(task.until)) {
		delete(c.tasks, token)
		c.announce()
	}
}

// logged handles a log message.
func (c *Client) logged(params json.RawMessage) {
	var p struct {
		Message string `json:"message"`
	}
	if c.opts.Lists != nil && json.Unmarshal(params, &p) == nil && c.opts.Lists.MatchString(p.Message) {
		c.finish(listTask, true)
	}
}

// status records whether the server is loading, and the reason why its answers are incomplete. rust-analyzer has
// moments without a task while it loads.
func (c *Client) status(params json.RawMessage) {
	var p struct {
		Health    string `json:"health"`
		Quiescent bool   `json:"quiescent"`
		Message   string `json:"message"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warning = ""
	if p.Health == "warning" || p.Health == "error" {
		c.warning = cmp.Or(line(p.Message), "It gives no reason.")
	}
	if p.Quiescent {
		delete(c.tasks, statusTask)
	} else {
		c.tasks[statusTask] = loading
	}
	c.announce()
}

var loading = Task{Title: "loading", Percent: -1}

// Warning returns the reason why a server calls its answers incomplete, or "".
func (c *Client) Warning() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.warning
}

// line returns a server's text as one short line.
func line(text string) string {
	return clip.Bytes(strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " "), 200)
}
