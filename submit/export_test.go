package submit

// Strayed returns the first change of an entry's stage that there is not, or nil. Each change is checked when it happens.
func (s *Submitter) Strayed() error {
	if wrong := s.wrongStage.Load(); wrong != nil {
		return *wrong
	}
	return nil
}
