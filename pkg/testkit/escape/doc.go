// Package escape is the catalogue of what a program in a cage may try, and what must come of each: the proof that cages hold.
//
// The attacks themselves are the program in probe, which runs inside the cage and prints one [Result] a line. The tests of
// the service run it in every environment there is, and once without any cage: there the cases that [Case.Open] marks must
// get out, so that none can pass because its attack does not work.
package escape
