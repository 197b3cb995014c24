package lsp

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/workspace/change"
)

// Stamp distinguishes contents of a file without reading them.
type Stamp = change.Version

// Files are the files that are sent to a server.
type Files interface {
	// Stat returns the stamp of a file. It fails with fs.ErrNotExist for a missing one.
	Stat(path string) (Stamp, error)
	// Read returns the content of a file of at most limit bytes, and its stamp.
	Read(path string, limit int) ([]byte, Stamp, error)
}

// documents are the open documents.
type documents struct {
	mu   sync.Mutex // guards the fields below, and keeps the order of notifications about documents
	open map[string]*document
	tick Moment // the number of uses
	// edits is the number of changes of files that the server has received.
	edits uint64
	// versions is the number of versions of all documents: a document that is opened again has a higher version than
	// before.
	versions int32
	// shape is the number of changes after which a server may have to determine again which files belong together: files
	// created and removed, documents opened and closed. settled is the value of shape at the last time when diagnostics
	// were quiet.
	shape, settled uint64
}

// document is an open document.
type document struct {
	Doc
	stamp Stamp
	used  Moment
	// compared is the moment of the last comparison with the file.
	compared Moment
	// sent is the time when the content was sent last.
	sent time.Time
	// untold is true if the file changed on disk while the document was open. The server is told when the document is
	// closed.
	untold bool
}

// Doc is a document in the state that the server has.
type Doc struct {
	Path    string
	Version int32
	Text    *Text
	// Sum is the SHA-256 of the file's bytes.
	Sum [sha256.Size]byte
	// edits is the number of changes that the server had received before this content.
	edits uint64
}

// Moment is a point in the order of a client's uses of documents. The zero Moment is before all others.
type Moment uint64

// Change is a file that changed on disk.
type Change struct {
	Path string
	// Kind is the protocol's number: 1 created, 2 changed, 3 deleted.
	Kind int
}

// The kinds of a [Change].
const (
	Created = 1
	Changed = 2
	Deleted = 3
)

// Open sends the server a file in its state on disk, unless the server has it already.
func (c *Client) Open(path string) (Doc, error) { return c.OpenAt(path, 0) }

// OpenAt is Open for a moment that a [Client.Sync] has returned: the file is sent in its state then or later. So a
// query compares its file once, at its start. The zero Moment is now.
func (c *Client) OpenAt(path string, moment Moment) (Doc, error) {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
	d, err := c.show(path, moment)
	if err != nil {
		return Doc{}, err
	}
	return d.Doc, nil
}

// show opens a document or updates it, unless it was compared at the moment or later. c.docs.mu is held.
func (c *Client) show(path string, moment Moment) (*document, error) {
	c.docs.tick++
	if d := c.docs.open[path]; d != nil {
		d.used = c.docs.tick
		if moment != 0 && d.compared >= moment {
			return d, nil
		}
		return d, c.renew(d)
	}
	data, stamp, err := c.opts.Files.Read(path, c.opts.DocumentBytes)
	if err != nil {
		return nil, err
	}
	if err := c.makeRoom(); err != nil {
		return nil, err
	}
	c.docs.versions++
	c.docs.shape++
	d := &document{stamp: stamp, used: c.docs.tick, compared: c.docs.tick, sent: time.Now(), Doc: Doc{
		Path: path, Version: c.docs.versions, Text: NewText(textOf(data)), Sum: sha256.Sum256(data), edits: c.docs.edits,
	}}
	c.docs.open[path] = d
	return d, c.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": URI(path), "languageId": c.opts.Language(path), "version": d.Version, "text": d.Text.String(),
	}})
}

// renew sends a document's content if the file has changed. c.docs.mu is held.
func (c *Client) renew(d *document) error {
	d.compared = c.docs.tick
	stamp, err := c.opts.Files.Stat(d.Path)
	if err == nil && stamp == d.stamp {
		return nil
	}
	var data []byte
	if err == nil {
		data, stamp, err = c.opts.Files.Read(d.Path, c.opts.DocumentBytes)
	}
	if err != nil {
		if closing := c.shut(d); closing != nil {
			return closing
		}
		return err
	}
	d.stamp = stamp
	sum := sha256.Sum256(data)
	if sum == d.Sum {
		return nil
	}
	d.Text, d.Sum = NewText(textOf(data)), sum
	c.docs.edits++
	return c.send(d)
}

// send sends a document's content as a new version. c.docs.mu is held.
func (c *Client) send(d *document) error {
	c.docs.versions++
	d.Version = c.docs.versions
	d.edits, d.sent = c.docs.edits, time.Now()
	return c.notify("textDocument/didChange", map[string]any{
		"textDocument":   map[string]any{"uri": URI(d.Path), "version": d.Version},
		"contentChanges": []any{map[string]string{"text": d.Text.String()}},
		"forceRebuild":   true, // for clangd, which otherwise does not publish for an unchanged content
	})
}

// shut closes a document. c.docs.mu is held.
func (c *Client) shut(d *document) error {
	delete(c.docs.open, d.Path)
	c.docs.edits++
	c.docs.shape++
	err := c.notify("textDocument/didClose", map[string]any{"textDocument": map[string]string{"uri": URI(d.Path)}})
	if err != nil || !d.untold {
		return err
	}
	change := map[string]any{"uri": URI(d.Path), "type": Changed}
	return c.notify(watchedFiles, map[string]any{"changes": []any{change}})
}

// makeRoom closes the least recently used documents while too many are open. c.docs.mu is held.
func (c *Client) makeRoom() error {
	for len(c.docs.open) >= c.opts.Documents {
		var oldest *document
		for _, d := range c.docs.open {
			if oldest == nil || d.used < oldest.used {
				oldest = d
			}
		}
		if err := c.shut(oldest); err != nil {
			return err
		}
	}
	return nil
}

// Sync sends the server the names of files that changed on disk, and updates every open document. Of a changed open
// file it sends only the new version and not its name: after both, gopls type-checks the package twice, and diagnostics
// take four times as long. Files that a server notices late are opened. It returns the moment of the comparisons.
func (c *Client) Sync(changes []Change) (Moment, error) {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
	c.docs.tick++
	var watched []any
	for _, change := range c.watched(changes) {
		if d := c.docs.open[change.Path]; d != nil && change.Kind == Changed {
			d.untold = true
			continue
		}
		if change.Kind != Changed {
			c.docs.shape++
		}
		watched = append(watched, map[string]any{"uri": URI(change.Path), "type": change.Kind})
	}
	if len(watched) > 0 {
		c.docs.edits++
		// In several messages, because a checkout may change more files than one message holds.
		for len(watched) > 0 {
			n := min(len(watched), 1000)
			if err := c.notify(watchedFiles, map[string]any{"changes": watched[:n]}); err != nil {
				return 0, err
			}
			watched = watched[n:]
		}
	}
	for _, d := range c.docs.open {
		if err := c.renew(d); errors.Is(err, ErrServer) {
			return 0, err
		}
	}
	return c.docs.tick, c.reveal(changes)
}

// shownFiles is the maximum number of files that one Sync opens.
const shownFiles = 64

// reveal opens files that appeared or changed, if the server notices both late. If these are too many, the server
// counts as loading for the time in which it notices them itself. c.docs.mu is held.
func (c *Client) reveal(changes []Change) error {
	if c.opts.Shown == nil {
		return nil
	}
	opened := 0
	for _, change := range changes {
		if change.Kind == Deleted || c.docs.open[change.Path] != nil || !c.opts.Shown(change.Path) {
			continue
		}
		if opened++; opened > min(shownFiles, c.opts.Documents/2) {
			c.begin(showTask, Task{Title: "many files changed", Percent: -1}, showTime)
			return nil
		}
		// It fails if the file is gone again, or too large; then the server reads it itself.
		if _, err := c.show(change.Path, 0); errors.Is(err, ErrServer) {
			return err
		}
	}
	return nil
}

// OpenDocuments returns the number of open documents.
func (c *Client) OpenDocuments() int {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
	return len(c.docs.open)
}

// again sends an open document once more, unless the server got it after the last change it received. A server
// publishes the diagnostics of each version.
func (c *Client) again(path string) (Doc, error) {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
	d, err := c.show(path, 0)
	if err != nil {
		return Doc{}, err
	}
	if d.edits != c.docs.edits {
		err = c.send(d)
	}
	return d.Doc, err
}

// textOf returns the text of a file's bytes, without a byte order mark.
func textOf(data []byte) string {
	if len(data) >= 3 && data[0] == 0xEF && data[1] == 0xBB && data[2] == 0xBF {
		data = data[3:]
	}
	return string(data)
}

// UTF16 converts a range from the server's unit to UTF-16. text is the document.
func (c *Client) UTF16(text *Text, r Range) Range {
	return Range{Start: text.Convert(r.Start, c.encoding, UTF16), End: text.Convert(r.End, c.encoding, UTF16)}
}

// Native converts a position from UTF-16 to the server's unit.
func (c *Client) Native(text *Text, p Position) Position { return text.Convert(p, UTF16, c.encoding) }

// Encoding returns the unit of the server's positions.
func (c *Client) Encoding() Encoding { return c.encoding }

// At makes a request about a position of a document, in UTF-16. more are further parameters.
func (c *Client) At(ctx context.Context, method string, doc Doc, p Position, more map[string]any, result any) error {
	if len(more) == 0 {
		return c.Call(ctx, method, placeParams{documentID{URI(doc.Path)}, c.Native(doc.Text, p)}, result)
	}
	params := map[string]any{"textDocument": documentID{URI(doc.Path)}, "position": c.Native(doc.Text, p)}
	for name, value := range more {
		params[name] = value
	}
	return c.Call(ctx, method, params, result)
}

// placeParams are the parameters of a request about a position.
type placeParams struct {
	Document documentID `json:"textDocument"`
	Position Position   `json:"position"`
}

// documentID names a document.
type documentID struct {
	URI string `json:"uri"`
}
