package issue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/clip"
	"kaged.dev/pkg/fault"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// take creates an issue of an export and returns its new number, and whether it was already imported completely. It
// continues an import that was interrupted: it adds the missing todos and comments, and the end.
func take(ctx context.Context, c *client.Client, path string, i issueView) (number int64, known bool, err error) {
	body := i.Body
	if i.OriginalBody != nil {
		body = *i.OriginalBody
	}
	from := fmt.Sprintf("%s#%d", i.ProjectID, i.Number)
	var filed issueView
	in := map[string]any{"title": i.Title, "body": body, "client_id": "import:" + i.ID, "imported_from": from}
	if err := c.Do(ctx, http.MethodPost, path, in, &filed); err != nil {
		number, changed := importedAs(err)
		if changed {
			err = nil
		}
		return number, changed, err
	}
	here := path + "/" + strconv.FormatInt(filed.Number, 10)
	there, err := whole(ctx, c, here)
	if err != nil {
		return 0, false, err
	}
	known = len(there.Todos) > 0 || len(there.Updates) > 0 || there.Version > 1
	if len(there.Todos) < len(i.Todos) {
		known = false
		if err := takeTodos(ctx, c, here, there.Todos, i.Todos); err != nil {
			return 0, false, err
		}
	}
	took, err := takeComments(ctx, c, here, i.Updates)
	if err != nil {
		return 0, false, err
	}
	change := map[string]any{}
	if body != i.Body {
		change["body"] = i.Body
	}
	if i.Status != "open" && i.Status != "reopened" {
		change["status"], change["comment"] = i.Status, fmt.Sprintf("Imported as %s from %s.", i.Status, from)
	}
	if i.Assignment != nil && !strings.HasPrefix(*i.Assignment, "session:") {
		change["assignment"] = *i.Assignment
	}
	if there.Version > 1 || len(change) == 0 {
		return filed.Number, known && !took, nil
	}
	finished, err := finish(ctx, c, here, change)
	return filed.Number, known && !took && !finished, err
}

// importedAs reads the number of an issue from the error for an issue that was imported before with another title or
// body.
func importedAs(err error) (number int64, ok bool) {
	f := fault.From(err)
	n, isNumber := f.Details["number"].(float64)
	return int64(n), f.Code == fault.Conflict && f.Details["reason"] == "client_id_reused" && isNumber
}

// finish makes the last change of an import, and reports whether it did. It leaves out an assignment that the project
// refuses, such as one to a workflow that the project file does not declare.
func finish(ctx context.Context, c *client.Client, here string, change map[string]any) (bool, error) {
	err := c.Do(ctx, http.MethodPatch, here, change, nil)
	if _, assigned := change["assignment"]; !assigned || !errors.Is(err, fault.ValidationFailed) {
		return err == nil, err
	}
	delete(change, "assignment")
	if len(change) == 0 {
		return false, nil
	}
	err = c.Do(ctx, http.MethodPatch, here, change, nil)
	return err == nil, err
}

// takeComments adds the missing comments of updates, and reports whether there were any.
func takeComments(ctx context.Context, c *client.Client, here string, updates []updateView) (took bool, err error) {
	comments := slices.DeleteFunc(slices.Clone(updates), func(u updateView) bool { return u.Kind != "comment" })
	if len(comments) == 0 {
		return false, nil
	}
	there := 0
	err = kit.Pages(ctx, c, here+"/updates?limit=200", func(u updateView) error {
		if u.Kind == "comment" {
			there++
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, u := range comments[min(there, len(comments)):] {
		text := fmt.Sprintf("%s, %s:\n\n%s", u.Author, date(u.CreatedAt), u.Body)
		if len(text) > maxComment {
			text = u.Body
		}
		in := map[string]any{"body": text, "visibility": u.Visibility}
		if err := c.Do(ctx, http.MethodPost, here+"/updates", in, nil); err != nil {
			return took, err
		}
		took = true
	}
	return took, nil
}

// Limits of the API: the maximum length of a comment in bytes, of a note in characters, and the maximum number of notes
// on a todo.
const (
	maxComment = 16 << 10
	maxNote    = 2000
	maxNotes   = 100
)

func date(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// takeTodos adds the missing todos after the existing ones. If an import was interrupted, the last existing todo may
// lack its status and notes.
func takeTodos(ctx context.Context, c *client.Client, here string, there, todos []todoView) error {
	if n := len(there); n > 0 {
		if last := there[n-1]; last.Status == "pending" && len(last.Notes) == 0 {
			if err := settle(ctx, c, here, last, todos[n-1]); err != nil {
				return err
			}
		}
	}
	for _, t := range todos[len(there):] {
		var added struct{ Items []todoView }
		in := map[string]any{"items": []string{t.Content}, "kind": t.Kind}
		if t.Phase != nil {
			in["phase"] = *t.Phase
		}
		if err := c.Do(ctx, http.MethodPost, here+"/todos", in, &added); err != nil {
			return err
		}
		if len(added.Items) != 1 {
			continue
		}
		if err := settle(ctx, c, here, added.Items[0], t); err != nil {
			return err
		}
	}
	return nil
}

// settle sets the status and the notes of an imported todo. The authors of notes, the proposing agent and the verifying
// operator are written into the texts of notes, because the API records the importing operator as the author.
func settle(ctx context.Context, c *client.Client, here string, to, from todoView) error {
	change := map[string]any{}
	if from.Status != "pending" {
		change["status"] = from.Status
	}
	for _, note := range append(notesOf(from), "") {
		if note != "" {
			change["note"] = note
		}
		if len(change) == 0 {
			continue
		}
		if err := c.Do(ctx, http.MethodPatch, here+"/todos/"+to.ID, change, nil); err != nil {
			return err
		}
		change = map[string]any{}
	}
	return nil
}

// notesOf returns the notes of an imported todo, cut to the maximum length of the API.
func notesOf(t todoView) []string {
	var notes []string
	add := func(author string, at int64, text string) {
		note, _ := clip.Runes(fmt.Sprintf("%s, %s: %s", author, date(at), text), maxNote)
		notes = append(notes, note)
	}
	if t.OriginAgent != nil {
		add(*t.OriginAgent, t.CreatedAt, "proposed it.")
	}
	for _, n := range t.Notes {
		add(n.Author, n.CreatedAt, n.Text)
	}
	if t.VerifiedBy != nil && t.VerifiedAt != nil {
		add(*t.VerifiedBy, *t.VerifiedAt, "verified it.")
	}
	if len(notes) > maxNotes {
		notes = notes[len(notes)-maxNotes:]
	}
	return notes
}
