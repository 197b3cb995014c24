package fakellm

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"kaged.dev/pkg/llm"
)

// File is a script's section: its name, such as llm/1, and its text.
type File struct{ Name, Text string }

// ParseArchive splits a text archive in the txtar format into its files: each begins with a line "-- NAME --". Text
// before the first is a comment.
func ParseArchive(text string) []File {
	var files []File
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(trimmed, "-- "); ok && strings.HasSuffix(name, " --") {
			files = append(files, File{Name: strings.TrimSpace(strings.TrimSuffix(name, " --"))})
		} else if n := len(files); n > 0 {
			files[n-1].Text += line
		}
	}
	return files
}

// ReadFiles returns the script sections of a folder that holds an unpacked text archive: the files under llm.
func ReadFiles(dir fs.FS) ([]File, error) {
	var files []File
	err := fs.WalkDir(dir, "llm", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(dir, name)
		files = append(files, File{Name: name, Text: string(text)})
		return err
	})
	return files, err
}

// Load registers the scripts of files. A section llm/N is step N of the common script; llm/KEY/N is step N for the
// conversation with KEY in its first user text; llm/each/N is step N for each conversation; llm/* and llm/KEY/* answer
// all requests after the last step. Other files are ignored. Steps must be numbered from 1 without a gap.
func (s *Server) Load(files []File) error {
	scripts := map[string]*sections{}
	var order []string
	for _, f := range files {
		key, number, ok := sectionName(f.Name)
		if !ok {
			continue
		}
		step, err := s.parseStep(f.Name, f.Text)
		if err != nil {
			return err
		}
		sec := scripts[key]
		if sec == nil {
			sec = &sections{steps: map[int]Step{}}
			scripts[key] = sec
			order = append(order, key)
		}
		if number == 0 {
			sec.rest = step
		} else {
			sec.steps[number] = step
		}
	}
	for _, key := range order {
		if err := s.register(key, scripts[key]); err != nil {
			return err
		}
	}
	return nil
}

// ParseScript registers the scripts of a text archive; see [Server.Load]. A line of a step is a verb and its
// arguments:
//
//	got user|system|tool|model|max_tokens|body TEXT   the request must hold TEXT, /a regular expression/, or the value
//	got tool_result [is_error] TEXT                   one of the results must hold TEXT
//	say TEXT, think TEXT, redacted DATA               the model's output; "quoted" text may span lines with \n
//	tool NAME JSON                                    a call
//	usage input=N output=N reasoning=N cache_read=N cache_write=N
//	stop REASON                                       see [Stop]
//	delay DURATION, pace DURATION                     wait once, or before each following delta
//	deltas COUNT SIZE [INTERVAL]                      see [Deltas]
//	status CODE [NAME: VALUE;]... MESSAGE             refuse, with headers
//	error KIND MESSAGE                                an error event
//	cut N, end N                                      break off, or end, after N bytes of the body
//	hang, garbage, ping, gate NAME, raw "BYTES"
//
// Empty lines and lines that begin with # are ignored.
func (s *Server) ParseScript(text string) error { return s.Load(ParseArchive(text)) }

type sections struct {
	steps map[int]Step
	rest  Step
}

// sectionName splits llm/N, llm/KEY/N, llm/* and llm/KEY/*. Number 0 means the star.
func sectionName(name string) (key string, number int, ok bool) {
	rest, ok := strings.CutPrefix(path.Clean(name), "llm/")
	if !ok {
		return "", 0, false
	}
	key, last := path.Split(rest)
	if last == "*" {
		return strings.TrimSuffix(key, "/"), 0, true
	}
	n, err := strconv.Atoi(last)
	return strings.TrimSuffix(key, "/"), n, err == nil && n > 0
}

func (s *Server) register(key string, sec *sections) error {
	steps := make([]Step, len(sec.steps))
	for i := range steps {
		step, ok := sec.steps[i+1]
		if !ok {
			return fmt.Errorf("script %q: step %d is missing", key, i+1)
		}
		steps[i] = step
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch key {
	case "":
		s.common = script{steps: steps, rest: sec.rest}
	case "each":
		s.each = steps
		if sec.rest != nil {
			s.each = append(s.each, sec.rest)
		}
	default:
		s.markers = append(s.markers, keyed{key, &script{steps: steps, rest: sec.rest}})
	}
	return nil
}

func (s *Server) parseStep(name, text string) (Step, error) {
	step := Step{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		a, err := s.parseAction(verb, strings.TrimSpace(rest))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		step = append(step, a)
	}
	return step, nil
}

func (s *Server) parseAction(verb, rest string) (Action, error) {
	switch verb {
	case "say":
		return textAction(Say, rest)
	case "think":
		return textAction(Think, rest)
	case "redacted":
		return textAction(Redacted, rest)
	case "raw":
		return textAction(Raw, rest)
	case "tool":
		name, input, _ := strings.Cut(rest, " ")
		return Tool(name, strings.TrimSpace(input)), nil
	case "stop":
		return Stop(rest), nil
	case "hang":
		return Hang(), nil
	case "garbage":
		return Garbage(), nil
	case "ping":
		return Ping(), nil
	case "gate":
		s.mu.Lock()
		defer s.mu.Unlock()
		return Wait(s.gate(rest)), nil
	case "error":
		kind, message, _ := strings.Cut(rest, " ")
		return Error(kind, message), nil
	case "got":
		return parseGot(rest)
	case "usage":
		return parseUsage(rest)
	case "status":
		return parseStatus(rest)
	case "deltas":
		return parseDeltas(rest)
	}
	return parseNumber(verb, rest)
}

func textAction(make func(string) Action, rest string) (Action, error) {
	if strings.HasPrefix(rest, `"`) {
		text, err := strconv.Unquote(rest)
		if err != nil {
			return Action{}, fmt.Errorf("bad quoted text %s", rest)
		}
		return make(text), nil
	}
	return make(rest), nil
}

func parseNumber(verb, rest string) (Action, error) {
	switch verb {
	case "delay", "pace":
		d, err := time.ParseDuration(rest)
		if verb == "pace" {
			return Pace(d), err
		}
		return Delay(d), err
	case "cut", "end":
		n, err := strconv.Atoi(rest)
		if verb == "end" {
			return End(n), err
		}
		return Cut(n), err
	}
	return Action{}, fmt.Errorf("unknown verb %q", verb)
}

func parseGot(rest string) (Action, error) {
	kind, text, _ := strings.Cut(rest, " ")
	e := expectation{kind: kind, text: strings.TrimSpace(text)}
	if !slices.Contains([]string{"user", "system", "tool", "model", "max_tokens", "body", "tool_result"}, kind) {
		return Action{}, fmt.Errorf("unknown expectation %q", kind)
	}
	if after, ok := strings.CutPrefix(e.text, "is_error"); ok && kind == "tool_result" {
		e.isError, e.exact, e.text = true, true, strings.TrimSpace(after)
	}
	if strings.HasPrefix(e.text, `"`) {
		text, err := strconv.Unquote(e.text)
		if err != nil {
			return Action{}, fmt.Errorf("bad quoted text %s", e.text)
		}
		e.text = text
	}
	return got(e), nil
}

func parseUsage(rest string) (Action, error) {
	var u llm.Usage
	fields := map[string]*int64{
		"input": &u.Input, "output": &u.Output, "reasoning": &u.Reasoning, "cache_read": &u.CacheRead,
		"cache_write": &u.CacheWrite,
	}
	for word := range strings.FieldsSeq(rest) {
		name, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if fields[name] == nil || err != nil {
			return Action{}, fmt.Errorf("bad usage %q", word)
		}
		*fields[name] = n
	}
	return Usage(u), nil
}

func parseStatus(rest string) (Action, error) {
	number, rest, _ := strings.Cut(rest, " ")
	code, err := strconv.Atoi(number)
	if err != nil || code < 200 || code > 599 {
		return Action{}, fmt.Errorf("bad status %q", number)
	}
	var headers []string
	for {
		header, message, found := strings.Cut(rest, ";")
		name, value, isHeader := strings.Cut(header, ":")
		if !found || !isHeader || strings.ContainsAny(strings.TrimSpace(name), " \t") {
			return Status(code, strings.TrimSpace(rest), headers...), nil
		}
		headers = append(headers, strings.TrimSpace(name), strings.TrimSpace(value))
		rest = message
	}
}

func parseDeltas(rest string) (Action, error) {
	words := strings.Fields(rest)
	if len(words) < 2 || len(words) > 3 {
		return Action{}, fmt.Errorf("deltas needs COUNT SIZE [INTERVAL]")
	}
	count, err1 := strconv.Atoi(words[0])
	size, err2 := strconv.Atoi(words[1])
	var interval time.Duration
	var err3 error
	if len(words) == 3 {
		interval, err3 = time.ParseDuration(words[2])
	}
	if err1 != nil || err2 != nil || err3 != nil || count < 0 || size < 2 {
		return Action{}, fmt.Errorf("bad deltas %q", rest)
	}
	return Deltas(count, size, interval), nil
}
