package changes

const MaxReaders = maxReaders
