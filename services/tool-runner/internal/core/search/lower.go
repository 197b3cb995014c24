package search

import "encoding/binary"

// lower returns data with ASCII letters in lower case, in dst's memory where that is large enough. It works on eight bytes
// at a time: of each byte below 128, bit 7 of the sums tells whether it is at least 'A' and whether it is above 'Z'.
func lower(dst, data []byte) []byte {
	if cap(dst) < len(data) {
		dst = make([]byte, len(data))
	}
	dst = dst[:len(data)]
	const ones = 0x0101010101010101
	i := 0
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		seven := x & (0x7f * ones)
		atLeastA := seven + (0x80-'A')*ones
		aboveZ := seven + (0x7f-'Z')*ones
		upper := (atLeastA ^ aboveZ) &^ x & (0x80 * ones)
		binary.LittleEndian.PutUint64(dst[i:], x|upper>>2)
	}
	for ; i < len(data); i++ {
		c := data[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst[i] = c
	}
	return dst
}
