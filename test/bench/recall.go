package bench

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed fts5.py
var fts5Script string

// fts5Answers are the results of SQLite's FTS5, by tokenizer.
type fts5Answers struct {
	Version string
	Answers map[string]struct {
		Found [][]string
		MS    []float64
	}
}

// measureRecall measures memory.search on 10,000 notes and 200 questions: its recall against SQLite's FTS5, its time
// against ripgrep's.
func measureRecall(ctx context.Context, w *world) ([]Figure, error) {
	notes := makeNotes()
	questions, project := makeQuestions(notes), filepath.Join(w.dir, "notes")
	if err := writeNotes(project, notes); err != nil {
		return nil, err
	}
	return w.withRunner(ctx, func(r *runner) ([]Figure, error) {
		figures, err := r.recallTimes(ctx, w, project, questions)
		if err != nil {
			return figures, err
		}
		missed, err := r.recallMissed(ctx, w, project, questions)
		return append(figures, missed...), err
	})
}

type memoryParams struct {
	Query      string  `json:"query"`
	MaxResults int     `json:"max_results"`
	MinScore   float64 `json:"min_score"`
}

// recalled returns the five best paths for a question, with any score.
func (r *runner) recalled(ctx context.Context, project, question string) ([]string, error) {
	text, err := r.call(ctx, "bench", project, "memory.search", memoryParams{question, 5, 0})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Results []struct{ Path string }
		Files   int
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, err
	}
	if answer.Files != memoryNotes {
		return nil, fmt.Errorf("memory.search looked at %d files of %d", answer.Files, memoryNotes)
	}
	var paths []string
	for _, hit := range answer.Results {
		paths = append(paths, hit.Path)
	}
	return paths, nil
}

// recallTimes measures the first question, which reads the notes, and each of the others, alternately with a ripgrep
// that searches for any of its words.
func (r *runner) recallTimes(
	ctx context.Context, w *world, project string, questions []memoryQuestion,
) ([]Figure, error) {
	begun := time.Now()
	if _, err := r.recalled(ctx, project, questions[0].Text); err != nil {
		return nil, err
	}
	first := Figure{Name: "recall/first-question", Value: ms(time.Since(begun)), Unit: "ms", Note: "reads 10,000 notes"}
	rg := w.findPeer(ctx, "ripgrep", "rg")
	var ours, theirs []time.Duration
	for _, q := range questions {
		begun := time.Now()
		if _, err := r.recalled(ctx, project, q.Text); err != nil {
			return nil, err
		}
		ours = append(ours, time.Since(begun))
		if rg.path == "" {
			continue
		}
		words := strings.Join(strings.FieldsFunc(q.Text, func(c rune) bool { return strings.ContainsRune(" ,()", c) }), "|")
		ran, err := rg.run(ctx, project, "--no-config", "--no-ignore", "--ignore-case", "--count-matches", "--color", "never",
			"-e", words, "memory")
		if err != nil {
			return nil, err
		}
		theirs = append(theirs, ran.wall)
	}
	median := Figure{
		Name: "recall/question/median", Value: ms(percentile(ours, 50)), Spread: spread(ours), Unit: "ms",
		Peer: rg.missing(),
	}
	worst := Figure{Name: "recall/question/p99", Value: ms(percentile(ours, 99)), Unit: "ms", Peer: rg.missing()}
	if rg.path != "" {
		median.Peer, median.Rival, median.Target = rg.title, ms(percentile(theirs, 50)), 1
		worst.Peer, worst.Rival, worst.Target = rg.title, ms(percentile(theirs, 99)), 1
	}
	return []Figure{first, median, worst}, nil
}

// recallMissed counts the questions, all and by kind, with a note that is not among the first five, for memory.search
// and for the tokenizer of FTS5 that misses the fewest.
func (r *runner) recallMissed(
	ctx context.Context, w *world, project string, questions []memoryQuestion,
) ([]Figure, error) {
	count := func(found func(i int) ([]string, error)) (map[string]float64, error) {
		missed := map[string]float64{}
		for i, q := range questions {
			paths, err := found(i)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(paths, "./"+q.answer) {
				missed[q.Kind]++
				missed["all"]++
			}
		}
		return missed, nil
	}
	ours, err := count(func(i int) ([]string, error) { return r.recalled(ctx, project, questions[i].Text) })
	if err != nil {
		return nil, err
	}
	peer := w.findPeer(ctx, "python3", "python3")
	var best map[string]float64
	var title string
	if peer.path != "" {
		answers, err := fts5(ctx, peer, project, questions)
		if err != nil {
			return nil, err
		}
		for _, tokenizer := range []string{"unicode61", "porter", "trigram"} {
			theirs, _ := count(func(i int) ([]string, error) { return answers.Answers[tokenizer].Found[i], nil })
			fmt.Fprintf(w.progress,
				"bench: recall: FTS5 %s (%s) misses %g of %d in the first five, %.2f ms each\n", answers.Version, tokenizer,
				theirs["all"], len(questions), sum(answers.Answers[tokenizer].MS)/float64(len(questions)))
			if best == nil || theirs["all"] < best["all"] {
				best, title = theirs, "FTS5 "+answers.Version+" "+tokenizer
			}
		}
	}
	var figures []Figure
	for _, kind := range []string{"all", "plain", "inflected", "misspelt", "setting"} {
		f := Figure{Name: "recall/missed-in-5/" + kind, Value: ours[kind], Unit: "questions", Peer: peer.missing()}
		if best != nil {
			f.Peer, f.Rival = title, best[kind]
			if kind == "all" {
				f.Target = 1
			}
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// fts5 returns SQLite's answers to the questions.
func fts5(ctx context.Context, python peer, project string, questions []memoryQuestion) (fts5Answers, error) {
	var texts []string
	for _, q := range questions {
		texts = append(texts, q.Text)
	}
	in, err := json.Marshal(texts)
	if err != nil {
		return fts5Answers{}, err
	}
	cmd := exec.CommandContext(ctx, python.path, "-c", fts5Script, project)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err := cmd.Output()
	if err != nil {
		return fts5Answers{}, fmt.Errorf("FTS5: %w: %.300s", err, stderr.String())
	}
	var answers fts5Answers
	if err := json.Unmarshal(out, &answers); err != nil {
		return answers, err
	}
	for _, a := range answers.Answers {
		if len(a.Found) != len(questions) {
			return answers, errors.New("FTS5 answered another number of questions")
		}
	}
	return answers, nil
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}
