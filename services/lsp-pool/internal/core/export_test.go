package core

// Caged reports whether the server of a view and an entry needs a cage.
func (o Options) Caged(v View, e Entry) bool { return o.caged(v, e) }

// Lang returns the language of a file.
func (p *Pool) Lang(v View, path string) (string, error) { return p.lang(v, path) }

// Entry returns the entry of a language.
func (v View) Entry(list []Entry, lang string) (Entry, bool) { return v.entry(list, lang) }

// Interpreter returns the program that runs a script.
func Interpreter(path string) string { return interpreter(path) }

// Dir returns the folder in which a server is started.
func (o Options) Dir(v View, e Entry, file string) string { return o.dir(v, e, file) }

// Shows reports whether a changed file may be shown to the server of an entry.
func Shows(v View, e Entry, path string) bool { return shows(v, e, path) }
