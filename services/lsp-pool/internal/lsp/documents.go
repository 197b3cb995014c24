package lsp

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"kaged.dev/pkg/workspace/change"
)

// Stamp tells one content of a file from another without reading it.
type Stamp = change.Version

// Files are the files that a server is shown.
type Files interface {
	// Stat returns the stamp of a file. It fails with fs.ErrNotExist for a missing one.
	Stat(path string) (Stamp, error)
	// Read returns the content of a file of at most limit bytes as it is with its stamp.
	Read(path string, limit int) ([]byte, Stamp, error)
}

// documents are the open ones.
type documents struct {
	mu   sync.Mutex // guards the fields below and keeps notifications about documents in their order
	open map[string]*document
	tick uint64 // counts uses
	// edits counts the changes of files that the server was told of.
	edits uint64
	// versions counts the versions of all documents: one that is opened again has a higher version than before.
	versions int32
	// shape counts the changes after which a server may have to find out anew which files belong together: files made
	// and removed, documents opened and closed. settled is its value when diagnostics were quiet last.
	shape, settled uint64
}

// document is an open one.
type document struct {
	Doc
	stamp Stamp
	used  uint64
	// sent is when the content was sent last.
	sent time.Time
	// untold reports whether the file changed on disk while the document was open, which the server hears when it is
	// closed.
	untold bool
}

// Doc is a document as the server has it.
type Doc struct {
	Path    string
	Version int32
	Text    *Text
	// Sum is the SHA-256 of the file's bytes.
	Sum [sha256.Size]byte
	// edits is how many changes the server had been told of when it got this content.
	edits uint64
}

// Change is a file that changed on disk.
type Change struct {
	Path string
	// Kind is that of the protocol: 1 created, 2 changed, 3 deleted.
	Kind int
}

// The kinds of a [Change].
const (
	Created = 1
	Changed = 2
	Deleted = 3
)

// Open shows the server a file as it is on disk, unless it has seen that.
func (c *Client) Open(path string) (Doc, error) {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
	d, err := c.show(path)
	if err != nil {
		return Doc{}, err
	}
	return d.Doc, nil
}

// show opens a document or brings it up to date. c.docs.mu is held.
func (c *Client) show(path string) (*document, error) {
	c.docs.tick++
	if d := c.docs.open[path]; d != nil {
		d.used = c.docs.tick
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
	d := &document{stamp: stamp, used: c.docs.tick, sent: time.Now(), Doc: Doc{
		Path: path, Version: c.docs.versions, Text: NewText(textOf(data)), Sum: sha256.Sum256(data), edits: c.docs.edits,
	}}
	c.docs.open[path] = d
	return d, c.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": URI(path), "languageId": c.opts.Language(path), "version": d.Version, "text": d.Text.String(),
	}})
}

// renew sends a document's content if the file has changed. c.docs.mu is held.
func (c *Client) renew(d *document) error {
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
		"forceRebuild":   true, // clangd's: without it a content that is the same is no reason to publish
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

// makeRoom closes the document that was unused for longest while too many are open. c.docs.mu is held.
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

// Sync tells the server of files that changed on disk, and brings every open document up to date. The content of an
// open document is what the server was sent, so a change of its file is sent as a new version alone: gopls type-checks
// the package for each of the two, which made diagnostics after an edit take four times as long.
func (c *Client) Sync(changes []Change) error {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
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
		// In pieces, because a checkout changes more files than one message holds.
		for len(watched) > 0 {
			n := min(len(watched), 1000)
			if err := c.notify(watchedFiles, map[string]any{"changes": watched[:n]}); err != nil {
				return err
			}
			watched = watched[n:]
		}
	}
	for _, d := range c.docs.open {
		if err := c.renew(d); errors.Is(err, ErrServer) {
			return err
		}
	}
	return nil
}

// OpenDocuments returns how many are open.
func (c *Client) OpenDocuments() int {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
	return len(c.docs.open)
}

// again sends an open document once more, unless the server got it after the last change it was told of. A server
// publishes the diagnostics of each version.
func (c *Client) again(path string) (Doc, error) {
	c.docs.mu.Lock()
	defer c.docs.mu.Unlock()
	d, err := c.show(path)
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

// UTF16 returns a range of the server's in UTF-16, by the text it is about.
func (c *Client) UTF16(text *Text, r Range) Range {
	return Range{Start: text.Convert(r.Start, c.encoding, UTF16), End: text.Convert(r.End, c.encoding, UTF16)}
}

// Native returns a position in UTF-16 as the server counts.
func (c *Client) Native(text *Text, p Position) Position { return text.Convert(p, UTF16, c.encoding) }

// Encoding returns how the server counts.
func (c *Client) Encoding() Encoding { return c.encoding }

// request makes a request about a document's position.
func (c *Client) at(doc Doc, p Position) map[string]any {
	return map[string]any{"textDocument": map[string]string{"uri": URI(doc.Path)}, "position": c.Native(doc.Text, p)}
}

// At makes a request about a place of a document, in UTF-16. more are further parameters.
func (c *Client) At(ctx context.Context, method string, doc Doc, p Position, more map[string]any, result any) error {
	params := c.at(doc, p)
	for name, value := range more {
		params[name] = value
	}
	return c.Call(ctx, method, params, result)
}
