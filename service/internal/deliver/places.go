package deliver

const (
	placesMax = 4096
	filesElse = 256 // files for all but callbacks
)

// placesOfProcess is how many calls may run at a time: half of the files that are left, since a connection that is being closed, or waits to
// serve again, is a file, too.
func placesOfProcess() int {
	files := openFiles()
	if files == 0 {
		return placesMax
	}
	if files <= filesElse+2 {
		return 1
	}
	return int(min(placesMax, (files-filesElse)/2))
}
