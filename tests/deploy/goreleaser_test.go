package deploy

import (
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

// Load refuses fields that goreleaser does not have. make snapshot is the whole check, for which goreleaser is compiled for minutes.
func TestGoreleaserMakesWhatTheImageAndTheDocumentsSay(t *testing.T) {
	project, err := config.Load(root + "/.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Builds) != 1 || len(project.DockersV2) != 1 || len(project.Archives) != 1 || len(project.SBOMs) != 1 {
		t.Fatalf("want one of each: builds %+v, images %+v, archives %+v, SBOMs %+v", project.Builds, project.DockersV2, project.Archives, project.SBOMs)
	}
	build, image := project.Builds[0], project.DockersV2[0]
	var platforms []string
	for _, goos := range build.Goos {
		for _, arch := range build.Goarch {
			platforms = append(platforms, goos+"/"+arch)
		}
	}
	if len(platforms) != 6 {
		t.Errorf("binaries for %q, want six platforms", platforms)
	}
	known, err := exec.CommandContext(t.Context(), "go", "tool", "dist", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, platform := range platforms {
		if !slices.Contains(strings.Fields(string(known)), platform) {
			t.Errorf("Go builds nothing for %s", platform)
		}
	}
	if len(image.Platforms) != 2 {
		t.Errorf("the image is for %q, want two platforms", image.Platforms)
	}
	for _, platform := range image.Platforms {
		if !slices.Contains(platforms, platform) {
			t.Errorf("an image for %s, of which there is no binary", platform)
		}
	}
	if !there(t, path.Join(root, image.Dockerfile)) || !there(t, path.Join(root, build.Dir, "main.go")) {
		t.Errorf("there is no %s, or no program in %s", image.Dockerfile, build.Dir)
	}
	if !strings.Contains(readFile(t, chart+"/values.yaml"), "repository: "+image.Images[0]+"\n") {
		t.Errorf("the chart has another image than %s", image.Images[0])
	}
	for _, archive := range project.Archives {
		for _, file := range archive.Files {
			if !there(t, path.Join(root, file.Source)) {
				t.Errorf("there is no %s for the archives", file.Source)
			}
		}
	}
	// A user who builds the image gets the binary of the release.
	flags := strings.Join(build.Flags, " ") + " -ldflags=" + strings.Join(build.Ldflags, " ")
	made := "CGO_ENABLED=0 go build " + flags + " -o /pqueue ./" + build.Dir + " "
	if !slices.Contains(build.Env, "CGO_ENABLED=0") || !strings.Contains(readFile(t, root+"/cmd/pqueue/deploy/Dockerfile"), made) {
		t.Errorf("the Dockerfile builds otherwise than goreleaser: %s", made)
	}
}

// The Makefile names the version that is compiled, and the module of the tests the one whose fields are known: the same.
func TestTheMakefileRunsTheGoreleaserThatIsChecked(t *testing.T) {
	required := regexp.MustCompile(`github.com/goreleaser/goreleaser/v2 (v\S+)`).FindStringSubmatch(readFile(t, "go.mod"))
	if required == nil || !strings.Contains(readFile(t, root+"/Makefile"), "goreleaser/v2@"+required[1]+"\n") {
		t.Errorf("the Makefile does not run goreleaser %v", required)
	}
}
