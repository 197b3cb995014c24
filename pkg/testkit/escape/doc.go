// Package escape is the catalogue of attempts of a program in a cage, with the required outcome of each: the proof that
// cages hold.
//
// The attacks themselves are the program in probe, which runs inside the cage and prints one [Result] a line. The tests
// of the service run it in every environment that the machine offers, and once without any cage: there the cases that
// [Case.Open] marks must get out, so that no case passes because its attack does not work.
package escape
