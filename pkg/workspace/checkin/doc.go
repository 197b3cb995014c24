// Package checkin computes the content that git would store for a file of a work tree, so that the file can be compared
// with a commit. It reads git's attributes and configuration and applies the conversions that git itself does:
// encodings, line ends and $Id$. It never runs a filter driver: a driver is a command of the repository's choice.
package checkin
