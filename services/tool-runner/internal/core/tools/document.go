package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/workspace/change"
	"kaged.dev/pkg/workspace/paths"
	"kaged.dev/pkg/workspace/text"
	"kaged.dev/services/tool-runner/internal/core/reads"
	"kaged.dev/services/tool-runner/internal/core/tool"
)

// document is a text file during an edit, with the content that its editor has read.
type document struct {
	path paths.Path
	was  change.Version
	hash reads.Hash
	// text is the file's decoded text, encoding its stored form.
	text     string
	encoding text.Encoding
}

// open returns a file to edit. It must be text of at most EditFile bytes, and its present content must equal the
// content that the caller has read.
func (d Deps) open(ctx context.Context, call *tool.Call, path paths.Path) (*document, error) {
	data, was, err := d.load(ctx, path)
	if err != nil {
		return nil, err
	}
	doc := &document{path: path, was: was, hash: reads.Sum(data)}
	if err := d.check(call, path, doc.hash); err != nil {
		return nil, err
	}
	return doc, d.decode(doc, data)
}

// decode reads the text of a file's content.
func (d Deps) decode(doc *document, data []byte) (err error) {
	var ok bool
	doc.text, doc.encoding, ok = text.Decode(data)
	if binary, _ := text.Binary(data[:min(len(data), text.HeadSize)], d.Sniff); binary || !ok {
		return fault.New(fault.FileNotText, "%s is not a text file and cannot be edited.", doc.path.Show).
			With("path", doc.path.Show)
	}
	return nil
}

// replace writes a new text to the file in its stored form, unless the file has changed since it was read.
func (d Deps) replace(call *tool.Call, doc *document, after string) (sum string, err error) {
	data := text.Encode(after, doc.encoding)
	if err := d.apply(call, change.Change{At: doc.path, Was: doc.was, Data: data}); err != nil {
		return "", err
	}
	d.saw(call, doc.path, reads.Sum(data))
	call.Changed = append(call.Changed, doc.path)
	return sha256Of(data), nil
}

// sha256Of returns the SHA-256 of a content in hex, the form of audit records.
func sha256Of(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// load returns the whole content and the version of a file to edit.
func (d Deps) load(ctx context.Context, path paths.Path) ([]byte, change.Version, error) {
	return d.loadTo(ctx, path, nil)
}

// loadTo is load into memory that room returns; see [change.Read].
func (d Deps) loadTo(ctx context.Context, path paths.Path, room func(int) []byte) ([]byte, change.Version, error) {
	if err := ctx.Err(); err != nil {
		return nil, change.Version{}, err
	}
	limit := int64(d.Limits.EditFile)
	data, was, err := change.Read(path, limit, room)
	if err == nil && was.Size > limit {
		err = tooLarge(path, limit)
	}
	return data, was, err
}

// sum returns the version of a file and the hash of its content. The limit is ReadFile, not EditFile.
func (d Deps) sum(ctx context.Context, path paths.Path) (change.Version, reads.Hash, error) {
	f, info, err := path.OpenFile()
	if err != nil {
		return change.Version{}, 0, err
	}
	defer f.Close()
	was := change.VersionOf(info)
	if was.Size > d.Limits.ReadFile {
		return was, 0, tooLarge(path, d.Limits.ReadFile)
	}
	sum := reads.NewSumming()
	err = copyTo(ctx, sum, io.LimitReader(f, was.Size))
	return was, sum.Sum(), path.Failure("read", err)
}
