"""Calibration: reliability curves, calibrators, decision costs and prevalence shift."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.calibration.costs import *
    from eval_toolkit.calibration.fitters import *
    from eval_toolkit.calibration.maps import *
    from eval_toolkit.calibration.priors import *
    from eval_toolkit.calibration.reliability import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "costs": "DEFAULT_FN_COST DEFAULT_FP_COST DEFAULT_PRIOR CostMatrix bayes_optimal_threshold",
        "fitters": (
            "DEFAULT_TEMPERATURE_BOUNDS Calibrator fit_beta_binary fit_beta_calibrator "
            "fit_isotonic_binary fit_isotonic_calibrator fit_platt_binary "
            "fit_platt_calibrator fit_temperature fit_temperature_binary "
            "fit_temperature_oracle"
        ),
        "maps": "BetaMap IsotonicMap PlattFit SigmoidMap TemperatureMap",
        "priors": "adjust_for_prior estimate_prior prior_shift_weights",
        "reliability": (
            "DEFAULT_N_BINS DEFAULT_STRATEGY maximum_calibration_error reliability_curve "
            "reliability_diagram_data"
        ),
    },
)
