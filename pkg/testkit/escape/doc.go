// Package escape is the catalogue of attacks by a program in a cage, with the required outcome of each. It is the proof
// that cages hold.
//
// The attacks are implemented by the program in probe, which runs inside the cage and prints one [Result] a line. The
// service's tests run it in every environment that the machine offers, and once without a cage: there the cases marked
// [Case.Open] must succeed, so that no case passes because its attack does not work.
package escape
