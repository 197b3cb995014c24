package recall

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Constants of BM25: the saturation for repeated words, and the penalty for long passages.
const (
	saturation = 1.2
	lengthPart = 0.75
)

// maxWords is the maximum number of words of a question that count.
const maxWords = 64

// Hit is a passage that answers a question.
type Hit struct {
	// Name is the note's name, From and To are the lines of the passage, counted from 1.
	Name     string
	From, To int
	// Score is from 0 to 1; see the package.
	Score float64
	// Text is the passage.
	Text string

	exact float64
}

// Search returns the passages that answer a question best, at most limit, with at least the given score, and the number
// of all such passages.
func (x *Index) Search(question string, limit int, score float64) (hits []Hit, total int) {
	return x.SearchNear(question, nil, limit, score)
}

// SearchNear searches as [Index.Search] does. near is the vector of the question, or nil for a search by words only. A
// passage with a vector scores at least the cosine of both vectors.
func (x *Index) SearchNear(question string, near []float32, limit int, score float64) (hits []Hit, total int) {
	asked := questionWords(question)
	if near = unit(near); len(asked) == 0 && near == nil || len(x.notes) == 0 {
		return nil, 0
	}
	s := &scorer{
		Index: x, sums: make([]float32, len(x.passages)), best: make([]float32, len(x.passages)), counts: make([]uint8,
			len(x.words)),
		mean: float32(x.length / float64(len(x.passages)-x.dead)),
	}
	found := 0
	for _, text := range asked {
		if s.add(text) {
			found++
		}
	}
	if found == 0 && near == nil {
		return nil, 0
	}
	// A word that is in no passage gets the average weight of the others.
	ideal := s.ideal * float64(len(asked)) / float64(max(found, 1))
	for at, sum := range s.sums {
		p, got := x.passages[at], 0.0
		if sum > 0 {
			got = 1 - math.Exp(-float64(sum)/ideal)
		}
		if near != nil && p.note != nil && p.note.vectors != nil {
			got = max(got, closeness(near, p.note.vectors[p.number]))
		}
		if got == 0 || got < score {
			continue
		}
		passage := p.note.passages[p.number]
		hits = append(hits, Hit{p.note.name, passage.from, passage.to, math.Round(got*1e4) / 1e4, passage.text, got})
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.exact, a.exact), strings.Compare(a.Name, b.Name), cmp.Compare(a.From, b.From))
	})
	return hits[:min(len(hits), limit)], len(hits)
}

// questionWords returns the distinct words of a question that count: those with a meaning, or all if there are only
// function words.
func questionWords(question string) []string {
	var all, kept []string
	seen := map[string]bool{}
	Words(question, func(word string) {
		if seen[word] || len(all) >= maxWords {
			return
		}
		seen[word] = true
		all = append(all, word)
		if !functionWords[word] {
			kept = append(kept, word)
		}
	})
	if len(kept) == 0 {
		return all
	}
	return kept
}

// functionWords are English words that reveal little of a question's subject.
var functionWords = func() map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(`a about after all also am an and any are as at be been before being but by
		can could did do does for from had has have how i if in into is it its just me my no not of on or our please
		should so some tell than that the their them then there these they this those to us was we were
		what when where which who whom whose why will with would you your`) {
		set[word] = true
	}
	return set
}()

// scorer adds up the contributions of a question's words to each passage.
type scorer struct {
	*Index
	sums, best []float32 // by passage: sum of the words so far, and value of the current word
	counts     []uint8   // by word, for similarTo
	mean       float32   // length of a passage
	ideal      float64   // sum for a passage of average length that holds each word once
}

// add adds a word of the question, and reports whether any passage holds it or a similar word.
func (s *scorer) add(text string) bool {
	var touched []int32
	weight := 0.0
	if id, ok := s.ids[text]; ok {
		weight = s.spread(&s.words[id], 1, math.Inf(1), &touched)
	}
	exact := weight
	if exact == 0 {
		exact = math.Inf(1)
	}
	for _, like := range s.similarTo(text, s.counts) {
		weight = max(weight, s.spread(&s.words[like.id], like.resembling, exact, &touched))
	}
	for _, at := range touched {
		s.sums[at] += s.best[at]
		s.best[at] = 0
	}
	s.ideal += weight
	return weight > 0
}

// spread adds a word's contribution to each passage that holds it, with its rarity limited by limit, and returns the
// weight of the word.
func (s *scorer) spread(w *word, resembling, limit float64, touched *[]int32) float64 {
	passages, holders := float64(len(s.passages)-s.dead), 0.0
	for _, p := range w.postings {
		if s.passages[p.passage].note != nil {
			holders++
		}
	}
	if holders == 0 {
		return 0
	}
	rarity := min(math.Log(1+(passages-holders+0.5)/(holders+0.5)), limit)
	factor := float32(resembling * rarity * (saturation + 1))
	for _, p := range w.postings {
		in := &s.passages[p.passage]
		if in.note == nil {
			continue
		}
		part := factor * p.weight / (p.weight + saturation*(1-lengthPart+lengthPart*in.length/s.mean))
		if s.best[p.passage] == 0 {
			*touched = append(*touched, p.passage)
		}
		s.best[p.passage] = max(s.best[p.passage], part)
	}
	return rarity
}
