package cli

import (
	"cmp"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/service"
)

// signers has a signer for each pattern of topics, the longest pattern first.
type signers []topicSigner

type topicSigner struct {
	pattern string
	*service.Signer
}

// allTopics is the pattern of a line that names none.
const allTopics = "*"

// of returns what signs the callbacks of a topic; nil: nothing does.
func (list signers) of(topic string) *service.Signer {
	for _, s := range list {
		if fits, err := path.Match(s.pattern, topic); err == nil && fits {
			return s.Signer
		}
	}
	return nil
}

// signers reads the secrets that sign callbacks from their file: one a line, perhaps behind a pattern of topics. All secrets of a pattern
// sign, so a new one can be added before an old one is taken away.
func (s *server) signers() (list signers, err error) {
	if s.secretFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.secretFile)
	if err != nil {
		return nil, exitf(exitUsage, "--secret-file: %w", err)
	}
	secrets := map[string][]service.Secret{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		pattern, key := allTopics, ""
		switch fields := strings.Fields(line); {
		case len(fields) == 0, strings.HasPrefix(fields[0], "#"):
			continue
		case len(fields) == 1:
			key = fields[0]
		case len(fields) == 2:
			pattern, key = fields[0], fields[1]
		default:
			return nil, exitf(exitUsage, "--secret-file: line %d has %d words; write a secret, or a pattern of topics and a secret", number, len(fields))
		}
		if strings.HasPrefix(pattern, "whs") { // an error shows no secret
			return nil, exitf(exitUsage, "--secret-file: line %d begins with a secret and goes on; write the pattern of topics first", number)
		}
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, exitf(exitUsage, "--secret-file: line %d: %q is no pattern of topics; use a name, or * for any characters, as in shop.*",
				number, pattern)
		}
		secrets[pattern] = append(secrets[pattern], service.Secret{Key: key})
	}
	if len(secrets) == 0 {
		return nil, exitf(exitUsage, "--secret-file: %s has no secret; write whsec_ and the output of openssl rand -base64 32 into it", s.secretFile)
	}
	for pattern, of := range secrets {
		signer, err := service.NewSigner(of...)
		if err != nil {
			return nil, exitf(exitUsage, "--secret-file: of %s, %w", topicsOf(pattern), err)
		}
		list = append(list, topicSigner{pattern, signer})
	}
	slices.SortFunc(list, func(a, b topicSigner) int {
		return cmp.Or(cmp.Compare(len(b.pattern), len(a.pattern)), strings.Compare(a.pattern, b.pattern))
	})
	return list, nil
}

func topicsOf(pattern string) string {
	if pattern == allTopics {
		return "all topics"
	}
	return "the topics " + pattern
}
