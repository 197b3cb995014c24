package projects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"unicode/utf8"

	"kaged.dev/pkg/check"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/page"
)

// Entry is an entry of a folder of a project. ModifiedAt is in milliseconds.
type Entry struct {
	Name, Path string
	// Kind is file, folder, link or other.
	Kind             string
	Size, ModifiedAt int64
}

// Content is a file in the form for people.
type Content struct {
	Path             string
	Size, ModifiedAt int64
	// Text is nil for a file that is no text or too large. SHA256 is "" for a file that is too large.
	Text   *string
	SHA256 string
	Binary bool
}

// maxShown is the maximum size of a file that is shown as text.
const maxShown = 1 << 20

// Files returns a page of a folder of a project in the order of names. It fails with not_found and validation_failed.
func (s *Service) Files(
	ctx context.Context, owner, id, folder string, limit int32, cursor string,
) (page.Page[Entry], error) {
	none := page.Page[Entry]{}
	req, err := page.Parse("files", limit, cursor)
	if err != nil {
		return none, err
	}
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return none, err
	}
	after := ""
	if req.After != nil {
		after = req.After.S
	}
	list, more, err := s.Workspace.ListFolder(ctx, p.Workspace, p.Path, folder, after, req.Limit)
	if err != nil {
		return none, browsing(err)
	}
	for i := range list {
		list[i].Path = path.Join(folder, list[i].Name)
	}
	return page.Of(req, list, more, func(e Entry) page.Key { return page.Key{S: e.Name} }), nil
}

// File returns a file of a project. It fails with not_found and validation_failed.
func (s *Service) File(ctx context.Context, owner, id, name string) (Content, error) {
	out := Content{Path: path.Clean(name)}
	var data bytes.Buffer
	err := s.Download(ctx, owner, id, name, func(size, modifiedAt int64, chunk []byte) error {
		out.Size, out.ModifiedAt = size, modifiedAt
		if size > maxShown {
			return errEnough
		}
		data.Write(chunk)
		return nil
	})
	if errors.Is(err, errEnough) {
		return out, nil
	}
	if err != nil {
		return Content{}, err
	}
	sum := sha256.Sum256(data.Bytes())
	out.SHA256 = hex.EncodeToString(sum[:])
	out.Binary = !utf8.Valid(data.Bytes()) || bytes.IndexByte(data.Bytes(), 0) >= 0
	if !out.Binary {
		text := data.String()
		out.Text = &text
	}
	return out, nil
}

var errEnough = errors.New("enough is known of the file")

// Download passes a file of a project to take in pieces. It fails with not_found and validation_failed, and with the
// errors of take.
func (s *Service) Download(
	ctx context.Context, owner, id, name string, take func(size, modifiedAt int64, chunk []byte) error,
) error {
	p, err := s.Find(ctx, owner, id)
	if err != nil {
		return err
	}
	if err := check.Text("path", name, maxPath); err != nil {
		return err
	}
	return browsing(s.Workspace.ReadFile(ctx, p.Workspace, p.Path, name, take))
}

// browsing converts an error about a path to one of the API.
func browsing(err error) error {
	f := fault.From(err)
	switch fault.CodeOf(err) {
	case fault.FileNotFound:
		return fault.Wrap(err, fault.NotFound, "%s", f.Msg)
	case fault.InvalidParams, fault.CapabilityDenied, fault.FileNotRegular:
		return check.Field("path", "%s", f.Msg)
	}
	return err
}
