package inspector

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// position is a position in a text; line and column count from 0.
type position struct{ line, column int }

func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.line, o.line), cmp.Compare(p.column, o.column))
}

// mapping relates a position in the running code to one in its source.
type mapping struct {
	from   position
	source int // -1 for code that the compiler added
	to     position
}

// sourceMap is a source map, revision 3. It has its own decoder because libraries only convert from the code to the
// source, and breakpoints need the other direction.
type sourceMap struct {
	sources  []string
	mappings []mapping // sorted by from
}

// mapBytes is the maximum size of a source map, mappings the maximum number of its entries.
const (
	mapBytes    = 32 << 20
	maxMappings = 4 << 20
)

var errMap = errors.New("the source map cannot be read")

// parseMap reads a source map, which may consist of several maps.
func parseMap(data []byte) (*sourceMap, error) { return parseSections(data, true) }

func parseSections(data []byte, whole bool) (*sourceMap, error) {
	var file struct {
		Version    int       `json:"version"`
		SourceRoot string    `json:"sourceRoot"`
		Sources    []*string `json:"sources"`
		Mappings   string    `json:"mappings"`
		Sections   []struct {
			Offset struct {
				Line   int `json:"line"`
				Column int `json:"column"`
			} `json:"offset"`
			Map json.RawMessage `json:"map"`
		} `json:"sections"`
	}
	if len(data) > mapBytes || json.Unmarshal(data, &file) != nil || file.Version != 3 ||
		!whole && len(file.Sections) > 0 {
		return nil, errMap
	}
	m := &sourceMap{}
	for _, s := range file.Sources {
		name := ""
		if s != nil {
			name = *s
		}
		if file.SourceRoot != "" && name != "" {
			name = strings.TrimSuffix(file.SourceRoot, "/") + "/" + name
		}
		m.sources = append(m.sources, name)
	}
	if err := m.decode(file.Mappings); err != nil {
		return nil, err
	}
	for _, section := range file.Sections {
		part, err := parseSections(section.Map, false)
		if err != nil || len(part.mappings)+len(m.mappings) > maxMappings {
			return nil, errMap
		}
		for _, x := range part.mappings {
			if x.from.line == 0 {
				x.from.column += section.Offset.Column
			}
			x.from.line += section.Offset.Line
			if x.source >= 0 {
				x.source += len(m.sources)
			}
			m.mappings = append(m.mappings, x)
		}
		m.sources = append(m.sources, part.sources...)
	}
	slices.SortStableFunc(m.mappings, func(a, b mapping) int { return a.from.compare(b.from) })
	return m, nil
}

// decode reads the mappings: lines separated by semicolons, entries by commas, numbers relative to the previous entry.
func (m *sourceMap) decode(text string) error {
	var at mapping
	for line := range strings.SplitSeq(text, ";") {
		at.from.column = 0
		for entry := range strings.SplitSeq(line, ",") {
			if entry == "" {
				continue
			}
			numbers, ok := variableLength(entry)
			if !ok || len(m.mappings) >= maxMappings {
				return errMap
			}
			at.from.column += numbers[0]
			x := at
			if len(numbers) >= 4 {
				at.source += numbers[1]
				at.to.line += numbers[2]
				at.to.column += numbers[3]
				x = at
			} else {
				x.source = -1
			}
			if x.from.column < 0 || x.source >= len(m.sources) || x.to.line < 0 || x.to.column < 0 {
				return errMap
			}
			m.mappings = append(m.mappings, x)
		}
		at.from.line++
	}
	return nil
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// variableLength reads the 1, 4 or 5 numbers of an entry: five bits per digit, the lowest digit first, the sign in the
// last bit.
func variableLength(entry string) ([]int, bool) {
	numbers := make([]int, 0, 5)
	value, shift := 0, 0
	for i := range len(entry) {
		digit := strings.IndexByte(digits, entry[i])
		if digit < 0 || shift > 30 {
			return nil, false
		}
		value |= digit & 31 << shift
		if digit&32 != 0 {
			shift += 5
			continue
		}
		number := value >> 1
		if value&1 != 0 {
			number = -number
		}
		if len(numbers) == cap(numbers) {
			return nil, false
		}
		numbers = append(numbers, number)
		value, shift = 0, 0
	}
	return numbers, shift == 0 && (len(numbers) == 1 || len(numbers) == 4 || len(numbers) == 5)
}

// original returns the source position of a position in the code. It is exact if the position is mapped; otherwise the
// next mapped position is used.
func (m *sourceMap) original(at position) (source int, to position, exact, ok bool) {
	i, found := slices.BinarySearchFunc(m.mappings, at, func(x mapping, p position) int { return x.from.compare(p) })
	if !found {
		i--
	}
	if i >= 0 && m.mappings[i].from.line == at.line && m.mappings[i].source >= 0 {
		x := m.mappings[i]
		return x.source, x.to, true, true
	}
	for _, x := range m.mappings[i+1:] {
		if x.source >= 0 {
			return x.source, x.to, false, true
		}
	}
	return 0, position{}, false, false
}

// generated returns the first position in the code that was made from a line of a source, or from the next line with
// code.
func (m *sourceMap) generated(source, line int) (position, bool) {
	var best mapping
	found := false
	for _, x := range m.mappings {
		if x.source != source || x.to.line < line || found && x.to.line > best.to.line {
			continue
		}
		if !found || x.to.line < best.to.line || x.to.column < best.to.column {
			best, found = x, true
		}
	}
	return best.from, found
}
