package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/wirejson"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
)

// LogOptions select entries of a project's log. Empty fields do not filter.
type LogOptions struct {
	// Level is the minimum level: debug, info, warn or error.
	Level string
	// Source is daemon, plugin, session or subagent.
	Source string
	// Session is the id of a session.
	Session string
	// Since is the time of the oldest entry, in milliseconds.
	Since int64
	// Last is the number of stored entries to begin with.
	Last int
}

// Times of a followed log.
const (
	// logSilence is the maximum silence of a stream; the daemon sends a comment every 30 seconds.
	logSilence = 90 * time.Second
	// logSlack is the maximum delay with which an entry is stored after younger ones.
	logSlack = 30 * time.Second
	// logRemembered is the number of ids remembered to drop duplicate entries.
	logRemembered = 8192
)

// Logs returns the last entries of a project's log, oldest first.
func (c *Client) Logs(ctx context.Context, project string, o LogOptions) ([]*apiv1.LogEntry, error) {
	req := &apiv1.ListProjectLogsRequest{
		Id: project, Level: o.Level, Source: o.Source, Session: o.Session, Since: o.Since, Limit: int32(min(o.Last, 200)),
	}
	var list []*apiv1.LogEntry
	if o.Last <= 0 {
		return nil, nil
	}
	for entry, err := range Items(ctx, c.ListProjectLogs, req) {
		if err != nil {
			return nil, err
		}
		if list = append(list, entry); len(list) == o.Last {
			break
		}
	}
	slices.Reverse(list)
	return list, nil
}

// FollowLogs yields the last entries of a project's log and then each new one, once, until ctx ends. After an
// interruption it reconnects and resumes. An error is the last value: not_found, invalid_parameter, or unavailable if
// the first connection fails.
func (c *Client) FollowLogs(ctx context.Context, project string, o LogOptions) iter.Seq2[*apiv1.LogEntry, error] {
	return func(yield func(*apiv1.LogEntry, error) bool) {
		f := &followed{client: c, project: project, options: o, seen: map[string]int64{}}
		for ctx.Err() == nil {
			for range reconnects.Each(ctx) {
				begun := time.Now()
				err := f.stream(ctx, yield)
				switch {
				case ctx.Err() != nil || errors.Is(err, errEnough):
					return
				case !f.began || !errors.Is(err, fault.Unavailable):
					yield(nil, err)
					return
				}
				if time.Since(begun) > reconnects.Last {
					break // start again with the shortest pause
				}
			}
		}
	}
}

// errEnough ends a stream after the reader has stopped.
var errEnough = errors.New("the reader wants no more")

// followed is the state of a followed log.
type followed struct {
	client  *Client
	project string
	options LogOptions
	began   bool
	newest  int64            // time of the newest entry
	seen    map[string]int64 // times, by id
}

// stream connects, yields the entries stored in the meantime, and then new entries until the stream ends. It fails with
// unavailable if the caller should retry.
func (f *followed) stream(ctx context.Context, yield func(*apiv1.LogEntry, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := f.client.openLog(ctx, f.project, f.options)
	if err != nil {
		return err
	}
	defer body.Close()
	stored, err := f.stored(ctx)
	if err != nil {
		return err
	}
	f.began = true
	for _, entry := range stored {
		if !f.pass(entry, yield) {
			return errEnough
		}
	}
	silent := time.AfterFunc(logSilence, cancel)
	defer silent.Stop()
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fault.Wrap(err, fault.Unavailable, "The stream of the log broke off.")
		}
		silent.Reset(logSilence)
		data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: ")
		if !ok {
			continue
		}
		entry := &apiv1.LogEntry{}
		if err := wirejson.Unmarshal([]byte(data), entry); err != nil {
			return fault.Wrap(err, fault.Internal, "The daemon's log has another form; update this client.")
		}
		if f.options.Session != "" && entry.GetSessionId() != f.options.Session {
			continue
		}
		if !f.pass(entry, yield) {
			return errEnough
		}
	}
}

// stored returns the entries that precede those of the stream.
func (f *followed) stored(ctx context.Context) ([]*apiv1.LogEntry, error) {
	o := f.options
	if f.began && f.newest > 0 {
		o.Since, o.Last = f.newest-logSlack.Milliseconds(), logRemembered
	}
	return f.client.Logs(ctx, f.project, o)
}

// pass yields an entry that is not a duplicate, and reports whether the reader wants more.
func (f *followed) pass(entry *apiv1.LogEntry, yield func(*apiv1.LogEntry, error) bool) bool {
	if _, known := f.seen[entry.GetId()]; known {
		return true
	}
	f.seen[entry.GetId()] = entry.GetTs()
	f.newest = max(f.newest, entry.GetTs())
	if len(f.seen) > 2*logRemembered {
		for id, ts := range f.seen {
			if ts < f.newest-2*logSlack.Milliseconds() {
				delete(f.seen, id)
			}
		}
	}
	return yield(entry, nil)
}

// openLog opens the stream of new entries.
func (c *Client) openLog(ctx context.Context, project string, o LogOptions) (io.ReadCloser, error) {
	id, err := segment("project", project, false)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	for name, value := range map[string]string{"level": o.Level, "source": o.Source} {
		if value != "" {
			query.Set(name, value)
		}
	}
	address := c.base + "/api/v1/projects/" + id + "/logs/stream?" + query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "%s is no address of the API.", address)
	}
	req.Header.Set("Accept", "text/event-stream, application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	endless := &http.Client{Jar: c.http.Jar, Transport: c.http.Transport}
	resp, err := endless.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Wrap(err, fault.Unavailable, "The daemon at %s cannot be reached.", c.base)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // apiFault reports a cut body as an answer without a code
		return nil, apiFault(resp.StatusCode, data)
	}
	return resp.Body, nil
}
