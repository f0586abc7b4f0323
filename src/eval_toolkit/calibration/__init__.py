"""Calibration: reliability curves, calibrators, decision costs and prevalence shift."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.calibration.costs import (
        DEFAULT_FN_COST,
        DEFAULT_FP_COST,
        DEFAULT_PRIOR,
        CostMatrix,
        bayes_optimal_threshold,
    )
    from eval_toolkit.calibration.fitters import (
        DEFAULT_TEMPERATURE_BOUNDS,
        Calibrator,
        fit_beta_binary,
        fit_beta_calibrator,
        fit_isotonic_binary,
        fit_isotonic_calibrator,
        fit_platt_binary,
        fit_platt_calibrator,
        fit_temperature,
        fit_temperature_binary,
        fit_temperature_oracle,
    )
    from eval_toolkit.calibration.maps import (
        BetaMap,
        IsotonicMap,
        PlattFit,
        SigmoidMap,
        TemperatureMap,
    )
    from eval_toolkit.calibration.priors import (
        adjust_for_prior,
        estimate_prior,
        prior_shift_weights,
    )
    from eval_toolkit.calibration.reliability import (
        DEFAULT_N_BINS,
        DEFAULT_STRATEGY,
        maximum_calibration_error,
        reliability_curve,
        reliability_diagram_data,
    )

__all__ = [
    "DEFAULT_FN_COST",
    "DEFAULT_FP_COST",
    "DEFAULT_N_BINS",
    "DEFAULT_PRIOR",
    "DEFAULT_STRATEGY",
    "DEFAULT_TEMPERATURE_BOUNDS",
    "BetaMap",
    "Calibrator",
    "CostMatrix",
    "IsotonicMap",
    "PlattFit",
    "SigmoidMap",
    "TemperatureMap",
    "adjust_for_prior",
    "bayes_optimal_threshold",
    "estimate_prior",
    "fit_beta_binary",
    "fit_beta_calibrator",
    "fit_isotonic_binary",
    "fit_isotonic_calibrator",
    "fit_platt_binary",
    "fit_platt_calibrator",
    "fit_temperature",
    "fit_temperature_binary",
    "fit_temperature_oracle",
    "maximum_calibration_error",
    "prior_shift_weights",
    "reliability_curve",
    "reliability_diagram_data",
]

__getattr__ = names_on_use(
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
