// Package spelling tells how far a word is from one that may have been meant.
package spelling

// Distance is how many bytes are to be added, removed or replaced to make b of a (Levenshtein). It takes time in
// proportion to the product of their lengths, so both should be short.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
