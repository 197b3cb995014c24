package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"kaged.dev/pkg/clip"
)

// Diagnostic is a server's message about a range.
type Diagnostic struct {
	Range    Range           `json:"range"`
	Severity int             `json:"severity"`
	Code     json.RawMessage `json:"code,omitempty"`
	Source   string          `json:"source,omitempty"`
	Message  string          `json:"message"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// CodeText returns the code as text.
func (d Diagnostic) CodeText() string {
	var text string
	if json.Unmarshal(d.Code, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(d.Code, &number) == nil {
		return number.String()
	}
	return ""
}

// silent is the number of Quiet times that a server without versions may take to publish diagnostics of a new content.
const silent = 25

// publication is a server's last publication about a file.
type publication struct {
	version *int32
	at      time.Time
	// number is the number of publications of the server until this one, edits the number of changes that the server had
	// received by then.
	number uint64
	items  []Diagnostic
}

// publish stores the diagnostics of a file.
func (c *Client) publish(params json.RawMessage) {
	var p struct {
		URI         string       `json:"uri"`
		Version     *int32       `json:"version"`
		Diagnostics []Diagnostic `json:"diagnostics"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	path, err := PathOf(p.URI)
	if err != nil || len(path) > 4096 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.published[path]; !known && len(c.published) >= publicationFiles {
		for other := range c.published {
			delete(c.published, other)
			break
		}
	}
	c.numbers++
	c.versions = c.versions || p.Version != nil
	c.published[path] = &publication{
		version: p.Version, at: time.Now(), number: c.numbers,
		items: bounded16(p.Diagnostics),
	}
	c.announce()
}

// bounded16 returns diagnostics cut to the limits.
func bounded16(list []Diagnostic) []Diagnostic {
	list = list[:min(len(list), publishedPerFile)]
	for i := range list {
		list[i].Message = clip.Bytes(strings.ToValidUTF8(list[i].Message, "\uFFFD"), 4096)
		list[i].Source = line(list[i].Source)
		if len(list[i].Code) > 256 {
			list[i].Code = nil
		}
		if len(list[i].Data) > answerText {
			list[i].Data = nil
		}
		if list[i].Severity < 1 || list[i].Severity > 4 {
			list[i].Severity = 1 // a diagnostic with an unknown severity counts as an error
		}
	}
	return list
}

// ErrSilent accompanies diagnostics of an earlier content: the server has not published for the present one.
var ErrSilent = errors.New("the language server is silent about the present content")

// Diagnose returns the diagnostics of a file in its present state. They are pulled if the server offers that, and
// requested from a tsserver if the server forwards requests to one. Otherwise the file is sent again if a file changed
// since it was sent, and the publication of that version is the answer. If the server names no versions, the answer is
// the first publication without another one within Quiet. Diagnose fails with ctx's error if no publication comes, and
// with [ErrSilent] if a server without versions has only published earlier.
func (c *Client) Diagnose(ctx context.Context, path string) (Doc, []Diagnostic, error) {
	if c.opts.Pulls || c.pulls() {
		doc, err := c.Open(path)
		if err != nil {
			return doc, nil, err
		}
		list, err := c.pull(ctx, doc)
		return doc, list, err
	}
	if c.asksTsserver() {
		doc, err := c.Open(path)
		if err != nil {
			return doc, nil, err
		}
		list, err := c.tsserverDiagnostics(ctx, doc)
		return doc, list, err
	}
	return c.await(ctx, path)
}

// DiagnoseForFixes returns the diagnostics of a file as [Client.Diagnose] does, after the server has stored them for
// code actions: a server that does not announce pulled diagnostics offers fixes only for diagnostics that it has
// published.
func (c *Client) DiagnoseForFixes(ctx context.Context, path string) (Doc, []Diagnostic, error) {
	if c.opts.Pulls && !c.pulls() {
		return c.await(ctx, path)
	}
	return c.Diagnose(ctx, path)
}

// await waits for the publication of a file in its present state.
func (c *Client) await(ctx context.Context, path string) (Doc, []Diagnostic, error) {
	c.mu.Lock()
	before := c.numbers
	c.mu.Unlock()
	doc, err := c.again(path)
	if err != nil {
		return doc, nil, err
	}
	list, err := c.awaitVersion(ctx, doc, before)
	return doc, list, err
}

// pulls reports whether the server answers requests for diagnostics.
func (c *Client) pulls() bool { return c.Provides("diagnosticProvider", "textDocument/diagnostic") }

// pull requests the diagnostics of a document.
func (c *Client) pull(ctx context.Context, doc Doc) ([]Diagnostic, error) {
	var report struct {
		Kind  string       `json:"kind"`
		Items []Diagnostic `json:"items"`
	}
	params := map[string]any{"textDocument": map[string]string{"uri": URI(doc.Path)}}
	if err := c.Call(ctx, "textDocument/diagnostic", params, &report); err != nil {
		return nil, err
	}
	if report.Kind != "full" && report.Kind != "" { // gopls omits the kind
		return nil, fmt.Errorf("the language server answered with diagnostics of kind %.40q", report.Kind)
	}
	return bounded16(report.Items), nil
}

// awaitVersion waits for the publication of a document's version. A publication with a number up to before was made
// before the call, and counts only if it names the version. If the server names versions, a publication without one is
// about the file on disk, and may be older than the document. After files were created or removed a version may be
// published twice, because a server such as gopls determines the package of a file late: the publication counts if no
// other one follows within Quiet.
func (c *Client) awaitVersion(ctx context.Context, doc Doc, before uint64) ([]Diagnostic, error) {
	shape, settled := c.shape()
	silence := time.NewTimer(silent * c.opts.Quiet)
	defer silence.Stop()
	for {
		c.mu.Lock()
		p, changed, versions := c.published[doc.Path], c.changed, c.versions
		c.mu.Unlock()
		if c.pulls() { // the server has announced it only now, and publishes no more
			return c.pull(ctx, doc)
		}
		var quiet <-chan time.Time
		if p != nil {
			switch {
			case p.version != nil && *p.version >= doc.Version && settled:
				return p.items, nil
			case p.version != nil && *p.version >= doc.Version,
				p.version == nil && !versions && (p.number > before || c.settled(doc, p)):
				left := c.opts.Quiet - time.Since(p.at)
				if left <= 0 {
					c.quiet(shape)
					return p.items, nil
				}
				timer := time.NewTimer(left)
				defer timer.Stop()
				quiet = timer.C
			}
		}
		select {
		case <-changed:
		case <-quiet:
		case <-silence.C:
			if p != nil && p.version == nil {
				return p.items, ErrSilent
			}
		case <-c.Done():
			return nil, ErrServer
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// shape returns the number of changes of the set of files, and whether diagnostics were quiet after the last change.
func (c *Client) shape() (count uint64, settled bool) {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
	return c.docs.shape, c.docs.shape == c.docs.settled
}

// quiet records that diagnostics were quiet after a change of the set of files.
func (c *Client) quiet(shape uint64) {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
	c.docs.settled = max(c.docs.settled, shape)
}

// settled reports whether a publication without a version is about the content that the server has, with none sent
// since.
func (c *Client) settled(doc Doc, p *publication) bool {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
	d := c.docs.open[doc.Path]
	return d != nil && d.Version == doc.Version && d.sent.Before(p.at)
}
